// A cell of a notebook: the page in a sandboxed frame, and the selection that it shares with Python.
function render({model, el}) {
  const frame = document.createElement("iframe");
  frame.title = "Headway: inside a model";
  frame.setAttribute("sandbox", "allow-scripts allow-downloads");
  const size = () => { frame.style.cssText = `width:100%;height:${model.get("height")}px;border:0`; };
  const select = () => frame.contentWindow?.postMessage({headway: "select", selection: model.get("selection")}, "*");
  const hear = ({source, data}) => {
    if (source !== frame.contentWindow || data?.headway !== "selection") return;
    model.set("selection", data.selection);
    model.save_changes();
  };
  size();
  frame.srcdoc = model.get("page");
  frame.addEventListener("load", select);
  window.addEventListener("message", hear);
  model.on("change:height", size);
  model.on("change:selection", select);
  el.append(frame);
  return () => {
    window.removeEventListener("message", hear);
    model.off("change:height", size);
    model.off("change:selection", select);
  };
}

export default {render};
