"""Servers: the live inspection page of one model, and models behind an HTTP API."""

from headway.serving.guard import Guard as Guard
from headway.serving.inspection_request import InspectionRequest as InspectionRequest
from headway.serving.inspection_request import parse as parse
from headway.serving.live import BundleViewer as BundleViewer
from headway.serving.model_server import ServerSettings as ServerSettings
from headway.serving.model_server import app as app
from headway.serving.run import serve as serve
from headway.serving.viewer import viewer_app as viewer_app
