// By what the tokens are coloured, and what the colours say.
import { Options } from "../../../ui/choices";
import { inputClass } from "../../../ui/field";
import { number } from "../../../ui/format";
import { useAddress } from "../../../ui/address-part";
import { MEASURES, STRONG_RATIO, type Measure, type Scale } from "./token-heat";

export function MeasureChoice({ measure, scale }: { measure: Measure; scale: Scale }) {
  const [, setAddress] = useAddress();
  return (
    <div className="flex flex-wrap items-center gap-3 text-xs">
      <label className="flex items-center gap-2">
        Colour by
        <select
          className={`${inputClass} w-44! text-sm`}
          value={measure}
          onChange={(event) => {
            const chosen = event.target.value;
            setAddress({ colour: chosen === "logprob" ? "" : chosen });
          }}
        >
          <Options of={MEASURES} />
        </select>
      </label>
      <Legend measure={measure} scale={scale} />
    </div>
  );
}

function ChangeLegend({ largest }: { largest: number | null }) {
  if (largest === null)
    return (
      <span className="text-muted">
        What the step changed is not kept of these tokens: the session does not have
        logprobs_after_step, or no step computed them.
      </span>
    );
  if (largest === 0)
    return <span className="text-muted">The step changed no log-probability of these tokens.</span>;
  return (
    <Key
      heats={["b5", "b2", "g2", "g5"]}
      words={`log-probability after the step - before it, ${number(-largest)} to ${number(largest)}`}
    />
  );
}

function Legend({ measure, scale }: { measure: Measure; scale: Scale }) {
  if (measure === "logprob")
    return <Key heats={["s1", "s3", "s5"]} words="likely to surprising (below 0.7 %)" />;
  if (measure === "advantage" && scale.advantage === 0)
    return (
      <span className="text-muted">
        No token of this episode has an advantage: it is not trained, or its group’s rewards are
        equal.
      </span>
    );
  if (measure === "advantage")
    return (
      <Key
        heats={["b5", "b2", "g2", "g5"]}
        words={`${number(-scale.advantage)} to ${number(scale.advantage)}`}
      />
    );
  if (measure === "ratio" && !scale.ratios)
    return (
      <span className="text-muted">
        The trainer’s log-probabilities are not kept of these tokens: no step computed them.
      </span>
    );
  if (measure === "ratio")
    return (
      <Key
        heats={["b5", "b2", "g2", "g5"]}
        words={`${number(STRONG_RATIO)} times less to ${number(STRONG_RATIO)} times more likely for the trainer; none: near 1, or not kept`}
      />
    );
  if (measure === "change") return <ChangeLegend largest={scale.change} />;
  if (measure === "loss" && !scale.loss)
    return (
      <span className="text-muted">
        No token of this episode has a part of a loss that is known: it is not trained, its group’s
        rewards are equal, or its ratios are not kept.
      </span>
    );
  if (measure === "loss")
    return (
      <Key
        heats={["b5", "b2", "g2", "g5"]}
        words="advantage × ratio beside the largest: made less or more likely; before clipping, without the KL and entropy terms"
      />
    );
  if (measure === "version")
    return (
      <Key
        heats={scale.versions.slice(0, 5).map((_, at) => `v${String(at)}`)}
        words={scale.versions.map((version) => String(version)).join(", ")}
      />
    );
  return null;
}

function Key({ heats, words }: { heats: string[]; words: string }) {
  return (
    <span className="flex items-center gap-1.5 text-muted">
      {heats.map((heat) => (
        <span
          key={heat}
          aria-hidden
          data-heat={heat}
          className="size-4 rounded-sm border border-line"
        />
      ))}
      {words}
    </span>
  );
}
