"""The server of the inspection page, for one model on this machine."""

from headway.serving.guard import Guard
from headway.serving.inspection_request import InspectionRequest, parse
from headway.serving.live import BundleViewer
from headway.serving.run import serve
from headway.serving.viewer import Viewer, viewer_app

__all__ = ["BundleViewer", "Guard", "InspectionRequest", "Viewer", "parse", "serve", "viewer_app"]
