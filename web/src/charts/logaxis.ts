import type uPlot from "uplot";
import { logTicks } from "./scale";

/**
 * What makes an axis of uPlot logarithmic, in addition to a scale with distr 3. Its own ticks never end
 * where the lowest value is just below a power of ten, such as 0.00095: the page stands still
 * until they are too many for an array.
 */
export const logAxis: Pick<uPlot.Axis, "splits" | "filter"> = {
  splits: (_plot, _axis, low, high) => logTicks(low, high),
  filter: (_plot, splits) => splits,
};
