"""Servers: the live inspection page of one model, and models behind an HTTP API."""

from headway.serving.guard import Guard
from headway.serving.inspection_request import InspectionRequest, parse
from headway.serving.live import BundleViewer
from headway.serving.model_server import ServerSettings, app
from headway.serving.run import serve
from headway.serving.viewer import Viewer, viewer_app

__all__ = [
    "BundleViewer",
    "Guard",
    "InspectionRequest",
    "ServerSettings",
    "Viewer",
    "app",
    "parse",
    "serve",
    "viewer_app",
]
