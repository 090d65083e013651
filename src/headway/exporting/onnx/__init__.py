"""ONNX: graphs of a model under the names of Hugging Face's Optimum and transformers.js."""
