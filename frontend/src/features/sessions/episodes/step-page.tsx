// One optimizer step: what it measured, what was refused before it, and its groups with their answers beside each other.
import { useQuery } from "@tanstack/react-query";
import { Link, Navigate, useNavigate, useParams, useSearchParams } from "react-router";
import { stepQuery } from "../../../api/episodes";
import { resourcesQuery } from "../../../api/metrics";
import { sessionQuery } from "../../../api/sessions";
import type { Group, Session, Step } from "../../../api/types";
import { ButtonLink } from "../../../ui/button";
import { dateTime, number } from "../../../ui/format";
import { Loading } from "../../../ui/loading";
import { ErrorNotice, Notice } from "../../../ui/notice";
import { Empty } from "../../../ui/panel";
import { useTitle } from "../../../ui/use-title";
import { withParts } from "../../../ui/address-part";
import { Facts } from "../../../ui/fact";
import { groupName } from "./first-line";
import { GroupAnswers } from "./group-answers";
import { groupPath, stepPath } from "./places";
import { PreviousNext } from "./neighbours";
import { visible, UserText } from "../../../ui/plain-text";
import { memoryAt, skippedText, spreadsOf } from "./spread";
import { StepSpread } from "./step-spread";
import { SessionCrumb } from "../session-crumb";

const RESOURCES_KEPT_MS = 60_000;

const SHOWN: [string, string][] = [
  ["Reward", "reward_mean"],
  ["Loss", "loss"],
  ["Gradient norm", "grad_norm"],
  ["Entropy", "entropy"],
  ["KL of the engine", "kl_engine"],
  ["Clipped", "clip_fraction"],
  ["Staleness", "staleness_max"],
  ["Tokens trained", "tokens_trained"],
  ["Tokens computed", "tokens_computed"],
  ["Repeated prefixes", "tokens_repeated"],
  ["Answer length", "completion_length_mean"],
  ["Episodes", "episodes"],
  ["Groups", "groups"],
  ["Rollout, s", "rollout_s"],
  ["Training, s", "train_s"],
];

export function StepPage() {
  const { id = "", step = "", group } = useParams();
  const session = useQuery(sessionQuery(id)).data;
  const number_ = Number(step);
  const { data, error, isPending } = useQuery(stepQuery(id, number_));
  const [address] = useSearchParams();
  const navigate = useNavigate();
  useTitle(`Step ${step}`, session);
  const onGo = (to: number) => {
    void navigate({
      pathname: group === undefined ? stepPath(id, to) : groupPath(id, to, group),
      search: address.toString(),
    });
  };
  const shown = data?.groups.find((each) => each.group_key === group);
  const before = address.get("group"); // where the group stood in an address before it had a path
  if (before !== null && group === undefined) {
    return (
      <Navigate
        to={{
          pathname: groupPath(id, step, before),
          search: withParts(address, { group: "" }).toString(),
        }}
        replace
      />
    );
  }
  return (
    <>
      <SessionCrumb
        session={session}
        id={id}
        above={group === undefined ? [] : [[`Step ${step}`, stepPath(id, step)]]}
        trail={[group === undefined ? `Step ${step}` : visible(shown ? groupName(shown) : group)]}
      />
      <div className="flex flex-wrap items-center gap-3">
        <h1 className="text-xl font-semibold tracking-tight">Step {step}</h1>
        {data?.at && <span className="text-muted">{dateTime(data.at)}</span>}
        <div className="ml-auto flex gap-2">
          <PreviousNext previous={data?.previous} next={data?.next} onGo={onGo} />
        </div>
      </div>
      <ErrorNotice error={error} />
      {error && <ButtonLink to={`/sessions/${id}`}>The session</ButtonLink>}
      {isPending && <Loading />}
      {data && <StepBody id={id} step={data} asked={group} session={session} />}
    </>
  );
}

function StepBody({
  id,
  step,
  asked,
  session,
}: {
  id: string;
  step: Step;
  asked: string | undefined;
  session: Session | undefined;
}) {
  const resources = useQuery({ ...resourcesQuery(id, false), staleTime: RESOURCES_KEPT_MS }).data;
  const memory =
    resources && session && step.at !== null
      ? memoryAt(resources, session.created_at, step.at)
      : [];
  const [address] = useSearchParams();
  const open = step.groups.find((group) => group.group_key === asked) ?? step.groups[0];
  const metrics = (step.metrics ?? {}) as Record<string, unknown>;
  const spreads = spreadsOf(step);
  const skipped = skippedText(
    step.groups,
    typeof metrics.groups_replaced === "number" ? metrics.groups_replaced : 0,
  );
  return (
    <div className="space-y-4">
      {step.refused.map((event) => (
        <Notice key={event.cursor} tone="bad" title={`Refused ${dateTime(event.at)}`}>
          <p className="wrap-anywhere">{visible(String(event.data.reason ?? ""))}</p>
        </Notice>
      ))}
      {step.metrics && (
        <Facts
          facts={SHOWN.map(
            ([name, key]) =>
              [name, number(typeof metrics[key] === "number" ? metrics[key] : null)] as [
                string,
                string,
              ],
          ).concat(memory)}
        />
      )}
      <StepSpread spreads={spreads} />
      {step.groups.length > 0 && spreads.every(({ title }) => title !== "Ratios") && (
        <p className="text-muted">
          Ratios of trainer to sampled are not kept of this step’s tokens.
        </p>
      )}
      {skipped !== null && <p className="text-muted">{skipped}</p>}
      {asked !== undefined && step.groups.length > 0 && open?.group_key !== asked && (
        <p className="text-muted">This step has no group “{visible(asked)}”. Its first is shown.</p>
      )}
      {step.groups.length === 0 && (
        <Empty title="No episode of this step is recorded">
          It was trained by the loop of a client, or before episodes were recorded.
        </Empty>
      )}
      <div className="grid items-start gap-4 lg:grid-cols-[16rem_minmax(0,1fr)]">
        <ul
          aria-label="Groups"
          className="max-h-[75vh] divide-y divide-line overflow-y-auto rounded-lg border border-line bg-surface empty:hidden"
        >
          {step.groups.map((group) => (
            <li key={group.group_key}>
              <Link
                to={{
                  pathname: groupPath(id, step.step, group.group_key),
                  search: address.toString(),
                }}
                replace
                aria-current={group === open ? "true" : undefined}
                className={`block w-full px-3 py-2 text-left ${group === open ? "bg-accent-soft" : "hover:bg-sunken"}`}
              >
                <GroupLine group={group} />
              </Link>
            </li>
          ))}
        </ul>
        {open && <GroupAnswers key={open.group_key} id={id} group={open} />}
      </div>
      {open && (
        <p className="text-xs text-muted">
          <Link
            className="rounded text-accent underline underline-offset-2"
            to={`/sessions/${id}/episodes?step=${String(step.step)}&sort=best`}
          >
            All episodes of this step
          </Link>
          {open.task !== null && (
            <>
              {" · "}
              <Link
                className="rounded text-accent underline underline-offset-2"
                to={`/sessions/${id}/tasks?of=training&to=${String(Math.max(0, step.step - 1))}&task=${encodeURIComponent(open.task)}`}
              >
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
        <UserText text={groupName(group)} />
      </span>
      <span className="block text-xs text-muted tabular-nums">
        {number(group.count)} episodes · mean {number(group.reward_mean)}
        {group.has_signal
          ? ` ± ${number(group.reward_std)}`
          : " · equal rewards: it taught nothing"}
      </span>
    </>
  );
}
