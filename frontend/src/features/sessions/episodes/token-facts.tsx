// What is known of the chosen token.
import type { TokenRun, TokenTimeline } from "../../../api/types";
import { number } from "../../../ui/format";
import { visible } from "../../../ui/plain-text";

/** The sampled run that has position `token` of timeline `line`, and the index of the token in it. */
export function findToken(timelines: TokenTimeline[], line: number, token: number): { run: TokenRun; at: number } | null {
  for (const timeline of timelines) {
    if (timeline.index !== line) continue;
    for (const run of timeline.runs) if (run.call !== null && token >= run.start && token < run.start + run.tokens) return { run, at: token - run.start };
  }
  return null;
}

/** The next sampled position from `token` in the direction of `by`; null at the end of what is loaded. */
export function nextToken(timelines: TokenTimeline[], line: number, token: number, by: 1 | -1): number | null {
  const runs = (timelines.filter((timeline) => timeline.index === line).flatMap((timeline) => timeline.runs)).filter((run) => run.call !== null);
  const ordered = by === 1 ? runs : [...runs].reverse();
  for (const run of ordered) {
    const last = run.start + run.tokens - 1;
    if (by === 1 && token < last) return Math.max(run.start, token + 1);
    if (by === -1 && token > run.start) return Math.min(last, token - 1);
  }
  return null;
}

export function TokenFacts({ run, at, token }: { run: TokenRun; at: number; token: number }) {
  const logprob = run.logprobs[at];
  const facts: [string, string][] = [
    ["Text", JSON.stringify(visible(run.pieces[at] ?? ""))],
    ["Id", String(run.token_ids[at] ?? "–")],
    ["Position", number(token)],
    ["Log-probability", number(logprob)],
    ["Probability", logprob === undefined ? "–" : `${number(Math.exp(logprob) * 100)} %`],
    ["Policy version", String(run.policy_versions[at] ?? "–")],
    ["Advantage", number(run.advantage)],
    ["Call", run.call ?? "–"],
  ];
  const raw = run.split_bytes[at];
  if (raw !== undefined) facts.push(["Bytes", raw]);
  return (
    <dl className="grid grid-cols-[auto_minmax(0,1fr)] gap-x-3 gap-y-1 p-4 text-xs">
      {facts.map(([name, value]) => (
        <div key={name} className="contents">
          <dt className="text-muted">{name}</dt>
          <dd className="font-mono wrap-anywhere">{value}</dd>
        </div>
      ))}
    </dl>
  );
}
