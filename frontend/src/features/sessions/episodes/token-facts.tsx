// What is known of the chosen token.
import type { TokenRun, TokenTimeline, TrajectoryCall } from "../../../api/types";
import { number } from "../../../ui/format";
import { visible } from "../../../ui/plain-text";
import { Word } from "../../../ui/word";
import { changeAt, lossPartAt, lossShareAt, ratioAt, type Scale } from "./token-heat";

/** The sampled run that has position `token` of timeline `line`, and the index of the token in it. */
export function findToken(
  timelines: TokenTimeline[],
  line: number,
  token: number,
): { run: TokenRun; at: number } | null {
  for (const timeline of timelines) {
    if (timeline.index !== line) continue;
    for (const run of timeline.runs)
      if (run.call !== null && token >= run.start && token < run.start + run.tokens)
        return { run, at: token - run.start };
  }
  return null;
}

/** The next sampled position from `token` in the direction of `by`; null at the end of what is loaded. */
export function nextToken(
  timelines: TokenTimeline[],
  line: number,
  token: number,
  by: 1 | -1,
): number | null {
  const runs = timelines
    .filter((timeline) => timeline.index === line)
    .flatMap((timeline) => timeline.runs)
    .filter((run) => run.call !== null);
  const ordered = by === 1 ? runs : [...runs].reverse();
  for (const run of ordered) {
    const last = run.start + run.tokens - 1;
    if (by === 1 && token < last) return Math.max(run.start, token + 1);
    if (by === -1 && token > run.start) return Math.min(last, token - 1);
  }
  return null;
}

interface Props {
  run: TokenRun;
  at: number;
  token: number;
  scale: Scale;
  /** Of the run's call. */
  options: TrajectoryCall["options"] | undefined;
}

export function TokenFacts({ run, at, token, scale, options }: Props) {
  const logprob = run.logprobs[at];
  const raw = run.raw_logprobs?.[at];
  const trainer = run.trainer_logprobs?.[at] ?? null;
  const after = run.trainer_logprobs_after?.[at] ?? null;
  const share = lossShareAt(run, at, scale);
  const [ratio, change] = [ratioAt(run, at), changeAt(run, at)];
  const facts: [string, string][] = [
    ["Text", JSON.stringify(visible(run.pieces[at] ?? ""))],
    ["Id", String(run.token_ids[at] ?? "–")],
    ["Position", number(token)],
    ["Log-probability", number(logprob)],
    ["Probability", percent(logprob)],
    ...(raw === undefined
      ? []
      : ([
          ["Raw log-probability", number(raw)],
          ["Raw probability", percent(raw)],
        ] satisfies [string, string][])),
    ["Trainer’s log-probability", trainer === null ? "not kept" : number(trainer)],
    ["… after the step", after === null ? "not kept" : number(after)],
    ["Change by the step", change === null ? "not kept" : number(change)],
    ["Ratio", ratio === null ? "not kept" : number(ratio)],
    ["Policy version", String(run.policy_versions[at] ?? "–")],
    ["Advantage", number(run.advantage)],
    ["Part of the loss", number(lossPartAt(run, at))],
    ["Share of the loss", share === null ? "–" : `${number(share * 100)} % of the episode’s`],
    ["Call", run.call ?? "–"],
  ];
  const bytes = run.split_bytes[at];
  if (bytes !== undefined) facts.push(["Bytes", bytes]);
  return (
    <>
      <dl className="grid grid-cols-[auto_minmax(0,1fr)] gap-x-3 gap-y-1 p-4 text-xs">
        {facts.map(([name, value]) => (
          <div key={name} className="contents">
            <dt className="text-muted">
              <Word text={name} />
            </dt>
            <dd className="font-mono wrap-anywhere">{value}</dd>
          </div>
        ))}
      </dl>
      <p className="border-t border-line p-4 text-xs text-muted">
        {whichDistribution(run, options)} The trainer’s is under the weights before the step that
        trained the token, and the ratio is e to its difference to the sampled one.
      </p>
    </>
  );
}

function percent(logprob: number | undefined): string {
  return logprob === undefined ? "–" : `${number(Math.exp(logprob) * 100)} %`;
}

/** Of which distribution the log-probability is, and what is known of the model's own. */
export function whichDistribution(
  run: TokenRun,
  options: TrajectoryCall["options"] | undefined,
): string {
  if (run.is_sampled_raw)
    return "The token was sampled from the model’s own distribution, at temperature 1 over all token ids: the log-probability is the raw one.";
  const changes = samplingWords(options);
  const sampled = `Log-probability: of the distribution that the token was sampled from${changes && `, after ${changes}`}. Training compares with this one.`;
  const own = run.raw_logprobs
    ? "Raw: the model’s own, at temperature 1 over all token ids."
    : "The model’s own, at temperature 1 over all token ids, was not recorded here.";
  return `${sampled} ${own}`;
}

/** What a call's options did to the distribution: "temperature 0.7, top_p 0.9 and a grammar". */
function samplingWords(options: TrajectoryCall["options"] | undefined): string {
  const sampling = options?.sampling;
  if (typeof sampling !== "object" || sampling === null) return "";
  const words = Object.entries(sampling as Record<string, unknown>).flatMap(([name, value]) => {
    if (
      name === "max_tokens" ||
      value === null ||
      value === false ||
      value === "" ||
      (CHANGES_NOTHING[name] ?? 0) === value
    )
      return [];
    return name === "grammar"
      ? ["a grammar"]
      : [
          `${name} ${typeof value === "number" ? number(value) : visible(JSON.stringify(value)).slice(0, 60)}`,
        ];
  });
  return words.length > 1
    ? `${words.slice(0, -1).join(", ")} and ${words[words.length - 1] ?? ""}`
    : (words[0] ?? "");
}

const CHANGES_NOTHING: Record<string, number> = { temperature: 1, top_p: 1, repetition_penalty: 1 };
