"""Training runs: named recipes, training from a configuration, reports and evaluation."""

from headway.runs.dry_run import DryRun as DryRun
from headway.runs.recipes import AnyRunConfig as AnyRunConfig
from headway.runs.recipes import Layer as Layer
from headway.runs.recipes import check_same as check_same
from headway.runs.recipes import configurations as configurations
from headway.runs.recipes import recipe as recipe
from headway.runs.recipes import recipes as recipes
from headway.runs.recipes import resolved as resolved
from headway.runs.recipes import run_folder as run_folder
from headway.runs.recipes import saved as saved
from headway.runs.recipes import with_settings as with_settings
from headway.runs.run import Outcome as Outcome
from headway.runs.run import train as train
