// One optimizer step: what it measured, what was refused before it, and its groups with their answers beside each other.
import { useQuery } from "@tanstack/react-query";
import { ChevronLeft, ChevronRight } from "lucide-react";
import { Link, useNavigate, useParams, useSearchParams } from "react-router";
import { stepQuery } from "../../../api/episodes";
import { sessionQuery } from "../../../api/sessions";
import type { Group, Step } from "../../../api/types";
import { Button, ButtonLink } from "../../../ui/button";
import { dateTime, number } from "../../../ui/format";
import { Loading } from "../../../ui/loading";
import { ErrorNotice, Notice } from "../../../ui/notice";
import { Empty } from "../../../ui/panel";
import { useTitle } from "../../../ui/use-title";
import { useAddress, withPart } from "../../../ui/address-part";
import { Facts } from "./facts";
import { GroupAnswers } from "./group-answers";
import { visible } from "../../../ui/plain-text";
import { UserText } from "../../../ui/user-text";
import { SessionCrumb } from "../session-crumb";
import { useKeys } from "./use-keys";

const SHOWN: [string, string][] = [
  ["Reward", "reward_mean"],
  ["Loss", "loss"],
  ["Gradient norm", "grad_norm"],
  ["Entropy", "entropy"],
  ["KL of the engine", "kl_engine"],
  ["Clipped", "clip_fraction"],
  ["Staleness", "staleness_max"],
  ["Tokens trained", "tokens_trained"],
];

export function StepPage() {
  const { id = "", step = "" } = useParams();
  const session = useQuery(sessionQuery(id)).data;
  const number_ = Number(step);
  const { data, error, isPending } = useQuery(stepQuery(id, number_));
  const [address] = useSearchParams();
  const navigate = useNavigate();
  useTitle(`Step ${step}`);
  const go = (to: number | null | undefined) => {
    if (to === null || to === undefined) return;
    void navigate({ pathname: `/sessions/${id}/steps/${String(to)}`, search: address.toString() });
  };
  useKeys({
    j: () => {
      go(data?.next);
    },
    k: () => {
      go(data?.previous);
    },
  });
  return (
    <>
      <SessionCrumb session={session} id={id} trail={[`Step ${step}`]} />
      <div className="flex flex-wrap items-center gap-3">
        <h1 className="text-xl font-semibold tracking-tight">Step {step}</h1>
        {data?.at && <span className="text-muted">{dateTime(data.at)}</span>}
        <div className="ml-auto flex gap-2">
          <Button onClick={() => { go(data?.previous); }} disabled={!data || data.previous === null} title="K">
            <ChevronLeft className="size-3.5" />
            Previous
          </Button>
          <Button onClick={() => { go(data?.next); }} disabled={!data || data.next === null} title="J">
            Next
            <ChevronRight className="size-3.5" />
          </Button>
        </div>
      </div>
      <ErrorNotice error={error} />
      {error && <ButtonLink to={`/sessions/${id}`}>The session</ButtonLink>}
      {isPending && <Loading />}
      {data && <StepBody id={id} step={data} />}
    </>
  );
}

function StepBody({ id, step }: { id: string; step: Step }) {
  const [address, setAddress] = useAddress();
  const asked = address.get("group");
  const open = step.groups.find((group) => group.group_key === asked) ?? step.groups[0];
  const metrics = (step.metrics ?? {}) as Record<string, unknown>;
  return (
    <div className="space-y-4">
      {step.refused.map((event) => (
        <Notice key={event.cursor} tone="bad" title={`Refused ${dateTime(event.at)}`}>
          <p className="wrap-anywhere">{visible(String(event.data.reason ?? ""))}</p>
        </Notice>
      ))}
      {step.metrics && <Facts facts={SHOWN.map(([name, key]) => [name, number(typeof metrics[key] === "number" ? metrics[key] : null)])} />}
      {step.groups.length === 0 && <Empty title="No episode of this step is recorded">It was trained by the loop of a client, or before episodes were recorded.</Empty>}
      <div className="grid items-start gap-4 lg:grid-cols-[16rem_minmax(0,1fr)]">
        <ul aria-label="Groups" className="max-h-[75vh] divide-y divide-line overflow-y-auto rounded-lg border border-line bg-surface empty:hidden">
          {step.groups.map((group) => (
            <li key={group.group_key}>
              <button
                type="button"
                aria-current={group === open || undefined}
                className={`block w-full px-3 py-2 text-left ${group === open ? "bg-accent-soft" : "hover:bg-sunken"}`}
                onClick={() => {
                  setAddress((before) => withPart(before, "group", group.group_key), { replace: true });
                }}
              >
                <GroupLine group={group} />
              </button>
            </li>
          ))}
        </ul>
        {open && <GroupAnswers key={open.group_key} id={id} group={open} />}
      </div>
      {open && (
        <p className="text-xs text-muted">
          <Link className="rounded text-accent underline underline-offset-2" to={`/sessions/${id}/episodes?step=${String(step.step)}&sort=best`}>
            All episodes of this step
          </Link>
          {open.task !== null && (
            <>
              {" · "}
              <Link className="rounded text-accent underline underline-offset-2" to={`/sessions/${id}/tasks?of=training&to=${String(Math.max(0, step.step - 1))}&task=${encodeURIComponent(open.task)}`}>
                The same task in other steps
              </Link>
            </>
          )}
        </p>
      )}
    </div>
  );
}

function GroupLine({ group }: { group: Group }) {
  return (
    <>
      <span className="block truncate font-medium">
        <UserText text={group.task ?? group.group_key} />
      </span>
      <span className="block text-xs text-muted tabular-nums">
        {number(group.count)} episodes · mean {number(group.reward_mean)}
        {group.has_signal ? ` ± ${number(group.reward_std)}` : " · equal rewards: it taught nothing"}
      </span>
    </>
  );
}
