"""Every target of `headway export` by its name."""

from headway.exporting.ctranslate2 import CTRANSLATE2
from headway.exporting.hugging_face import HUGGING_FACE
from headway.exporting.llama_cpp import GGUF
from headway.exporting.onnx.export import ONNX
from headway.exporting.pt2 import PT2
from headway.exporting.target import Target
from headway.exporting.web.export import web_page

WEB = "web"
TARGETS: dict[str, Target] = {
    "hf": HUGGING_FACE,
    "ctranslate2": CTRANSLATE2,
    "gguf": GGUF,
    "onnx": ONNX,
    WEB: web_page(),
    "pt2": PT2,
}
