"""The server over HTTP: routes, requests and replies. What a model can do decides what it answers;
no task is named here but transcription, whose transcripts get OpenAI's forms."""

from headway.serving.http.app import model_app
from headway.serving.http.served import ServedModel, ServedModels

__all__ = ["ServedModel", "ServedModels", "model_app"]
