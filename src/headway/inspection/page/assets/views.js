// All views, in the order of the page. Each is {id, title, lead, make(app)} and either
// wants(frame, map), whether it can show a map, or fits(session, state), whether it can be shown at all.
// make returns {element, controls, update(now), data()}. free: the view needs no map of weights.
import {alignment} from "./view-align.js";
import {beams} from "./view-beams.js";
import {compare} from "./view-compare.js";
import {experts} from "./view-experts.js";
import {grid} from "./view-grid.js";
import {predictions} from "./view-predictions.js";
import {head} from "./view-head.js";
import {image} from "./view-image.js";
import {lens} from "./view-lens.js";
import {model} from "./view-model.js";
import {lines} from "./view-lines.js";
import {matrix} from "./view-matrix.js";
import {overTime} from "./view-time.js";
import {report} from "./view-report.js";
import {text} from "./view-text.js";
import {walk} from "./view-walk.js";
import {whatIf} from "./view-what-if.js";

export const views = [
  report, model, alignment, image, text, grid, matrix, lines, head, experts, predictions, lens, whatIf, beams, overTime, compare, walk,
];
