// Which charts a run's samples make, in units that people read.
import type { ResourceColumn, ResourceColumns } from "../../../api/types";
import type { Series } from "../../../ui/chart-data";

const GIB = 1024 ** 3;

interface ResourceChart {
  title: string;
  unit: string;
  series: Series[];
}

interface Wanted {
  title: string;
  unit: string;
  per: number;
  /** The name of a line, and its column. */
  lines: [string, string][];
}

export function resourceCharts(told: ResourceColumns): ResourceChart[] {
  const { latest, columns } = told;
  if (!latest) return [];
  const gpus = latest.gpus.map((_, number) => `GPU ${String(number)}`);
  const wanted: Wanted[] = [
    {
      title: "CPU",
      unit: `cores of ${gib(latest.cores, 1)}`,
      per: 1,
      lines: [["this runtime", "cpu_cores"]],
    },
    {
      title: "Memory",
      unit: `GiB of ${gib(latest.memory_total_bytes)}`,
      per: GIB,
      lines: [
        ["this runtime", "memory_bytes"],
        ["machine", "memory_used_bytes"],
      ],
    },
    {
      title: "GPU busy",
      unit: "%",
      per: 0.01,
      lines: gpus.map((name, number) => [name, `gpu${String(number)}_busy`]),
    },
    {
      title: "GPU memory",
      unit: `GiB of ${gib(latest.gpus[0]?.memory_total_bytes ?? 0)}`,
      per: GIB,
      lines: gpus.map((name, number) => [name, `gpu${String(number)}_memory_bytes`]),
    },
    {
      title: "GPU power",
      unit: "W",
      per: 1,
      lines: gpus.map((name, number) => [name, `gpu${String(number)}_power_w`]),
    },
    {
      title: "Disk free",
      unit: `GiB of ${gib(latest.disk_total_bytes)}`,
      per: GIB,
      lines: [["free", "disk_free_bytes"]],
    },
    { title: "In the object store", unit: "GiB", per: GIB, lines: [["stored", "store_bytes"]] },
  ];
  return wanted
    .map(({ title, unit, per, lines }) => ({
      title,
      unit,
      series: lines.flatMap(([label, name], at) => line(label, columns[name], per, at)),
    }))
    .filter((chart) => chart.series.length > 0);
}

/** No line for what no sample reports. */
function line(
  label: string,
  column: ResourceColumn | undefined,
  per: number,
  at: number,
): Series[] {
  if (!column?.mean.some((value) => value !== null)) return [];
  const scaled = (values: readonly (number | null)[]) =>
    values.map((value) => (value === null ? null : value / per));
  return [
    {
      label,
      colour: `--series-${String((at % 8) + 1)}`,
      values: scaled(column.mean),
      ...(column.low && column.high && { low: scaled(column.low), high: scaled(column.high) }),
    },
  ];
}

function gib(value: number, per = GIB): string {
  return String(Number((value / per).toPrecision(3)));
}
