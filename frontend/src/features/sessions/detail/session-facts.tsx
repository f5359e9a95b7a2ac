// The few numbers that answer "how is it going" at a glance.
import { Link } from "react-router";
import type { Session, StepMetrics } from "../../../api/types";
import { Fact } from "../../../ui/fact";
import { number, seconds, ago, dateTime, restartsText } from "../../../ui/format";
import { UserText } from "../../../ui/plain-text";

export function policyText(maxStaleness: number): string {
  if (maxStaleness === 0) return "newest weights only";
  return `up to ${String(maxStaleness)} ${maxStaleness === 1 ? "version" : "versions"} old`;
}

export function weightsText(loraRank: number): string {
  return loraRank === 0 ? "all weights" : `LoRA of rank ${number(loraRank)}`;
}

export function BeganFrom({
  checkpoint: { session_id: of, kind, step, checkpoint_id: id, tinker_path: path },
}: {
  checkpoint: NonNullable<Session["started_from"]>;
}) {
  return (
    <Link
      to={`/sessions/${of}`}
      title={id}
      className="block rounded text-xs wrap-anywhere text-accent hover:underline"
    >
      from {path === null ? `the ${kind} of step ${number(step)}` : <UserText text={path} />} of
      another run
    </Link>
  );
}

export function SessionFacts({
  session,
  last,
}: {
  session: Session;
  last: StepMetrics | undefined;
}) {
  const { config } = session;
  const limit = config.max_steps === null ? "" : ` of ${number(config.max_steps)}`;
  const stepTime = last ? seconds(last.rollout_s + last.train_s + last.handover_s) : "–";
  return (
    <dl className="cells grid-cols-2 rounded-lg border border-line sm:grid-cols-3 xl:grid-cols-6">
      <Fact term="Policy version" note={`steps trained${limit}`}>
        <span data-testid="policy-version">{number(session.policy_version)}</span>
      </Fact>
      <Fact
        term="Reward"
        note={last ? `± ${number(last.reward_std)}, latest step` : "mean of the latest step"}
      >
        {number(last?.reward_mean ?? session.reward_mean)}
      </Fact>
      <Fact
        term="Step time"
        note={last ? `${number(last.tokens_trained)} tokens trained` : "rollout, train, handover"}
      >
        {stepTime}
      </Fact>
      <Fact
        term="Samples"
        note={`${number(config.tasks_per_batch)} ${config.tasks_per_batch === 1 ? "task" : "tasks"} × ${number(config.grpo_n)} attempts`}
      >
        <span className="text-sm">{policyText(config.max_staleness)}</span>
      </Fact>
      <Fact
        term="Base model"
        note={`${config.loss} · ${weightsText(config.lora_rank)} · lr ${config.learning_rate == null ? "by size" : number(config.learning_rate)}`}
      >
        <span className="block text-sm leading-5 wrap-anywhere">{session.base_model}</span>
        {session.started_from && <BeganFrom checkpoint={session.started_from} />}
      </Fact>
      <CreatedFact session={session} />
    </dl>
  );
}

/** The last of a session’s facts, whatever its kind. */
export function CreatedFact({ session }: { session: Session }) {
  return (
    <Fact term="Created" note={restartsText(session.restarts)}>
      <span className="text-sm" title={dateTime(session.created_at)}>
        {ago(session.created_at)}
      </span>
    </Fact>
  );
}
