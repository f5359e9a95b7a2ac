// A plot in its box, as wide as that is.
import uPlot from "uplot";
import { plotOptions, plotWidth, type PlotLook } from "./plot-options";

export function plotMake(
  look: PlotLook,
  data: uPlot.AlignedData,
): { plot: uPlot; remove: () => void } {
  const { element, printed, height } = look;
  const plot = new uPlot(plotOptions(look), data, element);
  const watcher = new ResizeObserver(() => {
    plot.setSize({ width: plotWidth(element, printed), height });
  });
  watcher.observe(element);
  return {
    plot,
    remove: () => {
      watcher.disconnect();
      plot.destroy();
    },
  };
}
