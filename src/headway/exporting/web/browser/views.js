// The views of an exported page: those that need no more than attention weights and predictions.
import {alignment} from "./view-align.js";
import {grid} from "./view-grid.js";
import {image} from "./view-image.js";
import {lines} from "./view-lines.js";
import {matrix} from "./view-matrix.js";
import {model} from "./view-model.js";
import {predictions} from "./view-predictions.js";
import {text} from "./view-text.js";

// The page knows no changes of the vectors, which the view of the whole model draws elsewhere.
const wholeModel = {...model, lead: "Tokens travel upwards. Circles are attention, squares feed-forward layers. Point at a head to see what it reads, click a part for its numbers."};

export const views = [wholeModel, alignment, image, text, grid, matrix, lines, predictions];
