// The timelines of an episode: what was read and what was sampled, in order. A click, or the arrows, choose a token.
import { useCallback, useEffect, useMemo, useState, type MouseEvent } from "react";
import type { EpisodeOutline, TokenTimeline, TrajectoryCall } from "../../../api/types";
import { number } from "../../../ui/format";
import { Panel } from "../../../ui/panel";
import { useAddress } from "../../../ui/address-part";
import { MeasureChoice } from "./measure-choice";
import { Minimap } from "./minimap";
import { wholeScale, type Place } from "./outline";
import { visible } from "../../../ui/plain-text";
import { findToken, nextToken, TokenFacts } from "./token-facts";
import { measureOf, scaleOf } from "./token-heat";
import { ContextRun, SampledRun } from "./token-line";
import { useKeys } from "./use-keys";

const TOP_PX = 110; // above it lies the line of the whole episode

interface Props {
  timelines: TokenTimeline[];
  calls: TrajectoryCall[];
  /** Of the whole episode, of which `timelines` may have a part. */
  outline: EpisodeOutline | null;
  /** Whether `timelines` are all of it. */
  isWhole: boolean;
}

export function Conversation({ timelines, calls, outline, isWhole }: Props) {
  const [address, setAddress] = useAddress();
  const measure = measureOf(address);
  const scale = useMemo(
    () =>
      wholeScale(
        outline,
        scaleOf(
          timelines.flatMap((timeline) => timeline.runs),
          isWhole,
        ),
      ),
    [timelines, outline, isWhole],
  );
  const [box, setBox] = useState<HTMLElement | null>(null);
  const line = Number(address.get("line") ?? "0");
  const token = address.has("token") ? Number(address.get("token")) : null;
  const chosen = token === null ? null : findToken(timelines, line, token);

  const choose = useCallback(
    (inLine: number, at: number | null) => {
      setAddress({
        line: at === null || inLine === 0 ? "" : String(inLine),
        token: at === null ? "" : String(at),
      });
    },
    [setAddress],
  );
  const moveTo = useCallback(
    (place: Place) => {
      choose(place.line, place.token);
    },
    [choose],
  );
  const step = (by: 1 | -1) => () => {
    const next = nextToken(timelines, line, token ?? -1, by);
    if (next !== null) choose(line, next);
  };
  useKeys(
    chosen
      ? {
          ArrowRight: step(1),
          ArrowLeft: step(-1),
          Escape: () => {
            choose(0, null);
          },
        }
      : { ArrowRight: step(1) },
  );

  const isFound = chosen !== null;
  useEffect(() => {
    const shown = isFound ? box?.querySelector("[data-chosen]") : null;
    const at = shown?.getBoundingClientRect();
    if (at && (at.top < TOP_PX || at.bottom > window.innerHeight))
      shown?.scrollIntoView({ block: "center" });
  }, [box, isFound, line, token]);

  if (timelines.length === 0 && !outline?.timelines.length)
    return <p className="p-4 text-muted">No token was sampled in this episode.</p>;
  return (
    <div className="space-y-4" ref={setBox}>
      <div className="z-10 space-y-2 bg-canvas py-2 sm:sticky sm:top-0 print:static print:bg-transparent">
        <MeasureChoice measure={measure} scale={scale} />
        {outline && outline.surprising.length > 1 && (
          <Minimap
            outline={outline}
            measure={measure}
            scale={scale}
            chosen={token === null ? null : { line, token }}
            within={box}
            onMove={moveTo}
          />
        )}
      </div>
      {timelines.map((timeline) => (
        <Panel
          key={timeline.index}
          title={`${timelines.length > 1 ? `Timeline ${String(timeline.index + 1)}` : "Tokens"}${timeline.agent === null ? "" : ` · ${visible(timeline.agent)}`}`}
          actions={<span className="text-xs text-muted">{number(timeline.tokens)} tokens</span>}
        >
          <div
            data-line={timeline.index}
            className="space-y-3 p-4"
            onClick={(event: MouseEvent) => {
              const at =
                event.target instanceof HTMLElement ? event.target.dataset.token : undefined;
              if (at !== undefined) choose(timeline.index, Number(at));
            }}
          >
            {timeline.runs.map((run) =>
              run.call === null ? (
                <ContextRun key={run.start} run={run} />
              ) : (
                <SampledRun
                  key={`${run.call} ${String(run.start)}`}
                  run={run}
                  title={titleOf(run.call, run.answer, calls)}
                  measure={measure}
                  scale={scale}
                  chosen={chosen && timeline.index === line && chosen.run === run ? token : null}
                />
              ),
            )}
          </div>
        </Panel>
      ))}
      {chosen && token !== null && (
        <aside
          aria-label="Token"
          className="fixed right-4 bottom-4 z-20 max-h-[60vh] w-80 max-w-[calc(100vw-2rem)] overflow-y-auto rounded-lg border border-line-strong bg-raised shadow-lg"
        >
          <button
            type="button"
            aria-label="Close"
            className="float-right m-2 rounded px-2 text-muted hover:bg-sunken"
            onClick={() => {
              choose(0, null);
            }}
          >
            ×
          </button>
          <TokenFacts
            run={chosen.run}
            at={chosen.at}
            token={token}
            scale={scale}
            options={calls.find((call) => call.id === chosen.run.call)?.options}
          />
        </aside>
      )}
    </div>
  );
}

function titleOf(callId: string, answer: number, calls: TrajectoryCall[]): string {
  const at = calls.findIndex((call) => call.id === callId);
  const call = calls[at];
  const several =
    call !== undefined && call.answers.length > 1 ? `, answer ${String(answer + 1)}` : "";
  const agent = call?.agent ? ` · ${visible(call.agent)}` : "";
  return `Call ${String(at + 1)}${several}${agent}`;
}
