// What the calls of a Tinker model returned, as the columns of its charts.
import type { ModelCalls, TinkerModel, TinkerRun } from "../../../api/types";
import type { Series } from "../../../ui/chart-data";
import { visible } from "../../../ui/plain-text";
import { weightsText } from "./session-facts";

export interface CallChart {
  title: string;
  unit: string;
  series: Series[];
}

const LOSS = "loss:sum";
const RATE = "learning_rate";

/** The loss first, as the calls returned it and by token; then what else they returned. A point of several calls has their extremes. */
export function lossCharts({
  columns,
  tokens,
  numbers,
  calls_within: all,
}: ModelCalls): CallChart[] {
  const loss = columns[LOSS];
  if (!loss) return [];
  const isWhole = numbers.length === all; // each point is one call
  const extremes = isWhole ? null : columns;
  const byToken = loss.last.map((value, at) =>
    value === null || !tokens[at] ? null : value / tokens[at],
  );
  return [
    {
      title: "Loss by token",
      unit: "of the call’s data",
      series: [line("loss", byToken, "--series-2")],
    },
    {
      title: "Loss",
      unit: "sum, as the call returned it",
      series: [line("loss", loss.last, "--series-2", extremes?.[LOSS])],
    },
    ...others(columns, [LOSS], isWhole),
  ];
}

/** The learning rate first, then what else the steps returned, such as the norm of the gradient. */
export function stepCharts({ columns, numbers, calls_within: all }: ModelCalls): CallChart[] {
  const rate = columns[RATE];
  const isWhole = numbers.length === all;
  return [
    ...(rate
      ? [
          {
            title: "Learning rate",
            unit: "",
            series: [line("rate", rate.last, "--series-1", isWhole ? undefined : rate)],
          },
        ]
      : []),
    ...others(columns, [RATE], isWhole),
  ];
}

function others(
  columns: ModelCalls["columns"],
  drawn: readonly string[],
  isWhole: boolean,
): CallChart[] {
  return Object.entries(columns)
    .filter(([name]) => !drawn.includes(name))
    .map(([name, column]) => ({
      title: measureName(name),
      unit: name.split(":")[1] ?? "",
      series: [line(name, column.last, "--series-1", isWhole ? undefined : column)],
    }));
}

/** `extremes`: those of the calls of each point, where it is several. */
function line(
  label: string,
  values: (number | null)[],
  colour: string,
  extremes?: { low: (number | null)[]; high: (number | null)[] },
): Series {
  return { label, values, colour, ...(extremes && { low: extremes.low, high: extremes.high }) };
}

/** "grad_norm" as "Grad norm", "kl:mean" as "Kl". */
export function measureName(name: string): string {
  const words = (name.split(":")[0] ?? name).replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** "LoRA of rank 8", with the parts that are left out; "all weights" without an adapter. */
export function weightsOf({ lora }: Pick<TinkerModel, "lora">): string {
  const weights = weightsText(lora.rank);
  const without = [
    !lora.train_attn && "attention",
    !lora.train_mlp && "MLP",
    !lora.train_unembed && "unembedding",
  ].filter(Boolean);
  return lora.rank > 0 && without.length > 0
    ? `${weights}, without ${without.join(" and ")}`
    : weights;
}

/** "train:0" of "tnk_...:train:0"; with its client where another client of the session has a model of this number. */
export function modelName(
  id: string,
  { models, clients }: Pick<TinkerRun, "clients"> & { models: readonly Pick<TinkerModel, "id">[] },
): string {
  const short = shortName(id);
  if (!models.some((other) => other.id !== id && shortName(other.id) === short)) return short;
  const client = id.slice(0, id.length - short.length - 1);
  const name = clients.find(({ tinker_session_id: one }) => one === client)?.display_name ?? "";
  const isTaken = clients.some(
    ({ tinker_session_id: one, display_name: other }) => one !== client && other === name,
  );
  return `${short} of ${name && !isTaken ? visible(name) : client}`;
}

function shortName(id: string): string {
  return id.split(":").slice(1).join(":") || id;
}

/** The calls with those of a part of the axis in finer points. What came after these were read stays. */
export function withFinerCalls(calls: ModelCalls, finer: ModelCalls | undefined): ModelCalls {
  const [first, last] = [finer?.numbers[0], finer?.numbers[finer.numbers.length - 1]];
  if (!finer || first === undefined || last === undefined) return calls;
  const before = calls.numbers.filter((number) => number < first).length;
  const within = calls.numbers.filter((number) => number >= first && number <= last).length;
  const joined = <T>(whole: readonly T[], part: readonly T[]) => [
    ...whole.slice(0, before),
    ...part,
    ...whole.slice(before + within),
  ];
  const absent = (count: number) => Array.from({ length: count }, () => null);
  const columns = Object.entries(calls.columns).map(([name, whole]) => {
    const part = finer.columns[name];
    const side = (of: "last" | "low" | "high") =>
      joined(whole[of], part?.[of] ?? absent(finer.numbers.length));
    return [name, { last: side("last"), low: side("low"), high: side("high") }];
  });
  return {
    ...calls,
    numbers: joined(calls.numbers, finer.numbers),
    steps: joined(calls.steps, finer.steps),
    tokens: joined(calls.tokens, finer.tokens),
    columns: Object.fromEntries(columns) as ModelCalls["columns"],
  };
}
