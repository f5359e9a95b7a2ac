// Days of use as a table for a spreadsheet: a row for each day and payer.
import type { UsageDays } from "../../api/types";
import { csvCell } from "../../ui/chart-files";

export function usageCsv({ by, days, payers, prices }: UsageDays): string {
  const names = new Map(payers.map(({ id, name }) => [id, name]));
  const head = [
    "date",
    "id",
    by,
    "device_s",
    "gpu_s",
    "runtime_s",
    ...(prices ? [`cost_${prices.currency}`] : []),
  ];
  const rows = days.map(({ date, id, device_s: device, gpu_s: gpu, runtime_s: runtime, cost }) =>
    [
      date,
      csvCell(id ?? ""),
      csvCell(names.get(id) ?? ""),
      device,
      gpu,
      runtime,
      ...(prices ? [cost ?? ""] : []),
    ].join(","),
  );
  return [head.join(","), ...rows, ""].join("\r\n");
}
