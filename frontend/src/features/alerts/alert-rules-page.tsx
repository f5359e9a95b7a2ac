// The project's own rules of alerts, which stand beside the ones that every run has.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { alertRulesQuery, deleteRule } from "../../api/alerts";
import type { MetricRule } from "../../api/types";
import { Button } from "../../ui/button";
import { Confirm } from "../../ui/dialog";
import { ago, dateTime } from "../../ui/format";
import { Loading } from "../../ui/loading";
import { ErrorNotice } from "../../ui/notice";
import { Empty, PageHeader } from "../../ui/panel";
import { visible, UserText } from "../../ui/plain-text";
import { cell, headCell, Table } from "../../ui/table";
import { useMayWrite } from "../../use-may-write";
import { ruleText } from "./measures";
import { EditRule, RuleDialog } from "./rule-form";

const HEAD = [
  { name: "Name" },
  { name: "Raised while" },
  { name: "Runs" },
  { name: "Created" },
  { name: "" },
];

export function AlertRulesPage() {
  const { data, error, isPending } = useQuery(alertRulesQuery);
  const client = useQueryClient();
  const remove = useMutation({
    meta: { done: "The rule is deleted" },
    mutationFn: deleteRule,
    onSettled: () => client.invalidateQueries({ queryKey: alertRulesQuery.queryKey }),
  });
  const mayWrite = useMayWrite();
  const isEmpty = data?.items.length === 0;
  const [isNew, setNew] = useState(false);
  const newOne = (
    <Button
      look="primary"
      onClick={() => {
        setNew(true);
      }}
    >
      New rule
    </Button>
  );
  return (
    <>
      <PageHeader title="Alert rules">{mayWrite && !isEmpty && newOne}</PageHeader>
      <RuleDialog rule={null} open={isNew} onOpenChange={setNew} />
      <p className="mb-4 max-w-prose text-muted">
        Every run is watched for failures, restarts and standstill, failed checkpoints, full disks
        and its budget, and each of its steps for collapses of reward and entropy, equal rewards,
        answers cut off or growing, dropped episodes, KL, and a gap between engine and trainer. The
        rules here are compared with each step besides.
      </p>
      <ErrorNotice error={error ?? remove.error} />
      <div className="rounded-lg border border-line bg-surface">
        {isPending && <Loading />}
        {isEmpty && (
          <Empty title="No rule yet">
            <p className="mb-3">
              A rule raises an alert of a run while a measure of its steps, the reward say, is above
              or below a value.
            </p>
            {mayWrite && newOne}
          </Empty>
        )}
        {data && data.items.length > 0 && (
          <Table label="Alert rules" head={HEAD}>
            {data.items.map((rule) => (
              <Row
                key={rule.id}
                rule={rule}
                onDelete={
                  mayWrite
                    ? () => {
                        remove.mutate(rule.id);
                      }
                    : null
                }
              />
            ))}
          </Table>
        )}
      </div>
    </>
  );
}

/** `onDelete`: null for a person who may only look. */
function Row({ rule, onDelete }: { rule: MetricRule; onDelete: (() => void) | null }) {
  return (
    <tr>
      <th scope="row" className={`${headCell} text-ink`}>
        <UserText text={rule.name} />
      </th>
      <td className={`${cell} wrap-anywhere`}>{visible(ruleText(rule))}</td>
      <td className={`${cell} max-w-64 wrap-anywhere`}>
        {rule.runs ? <UserText text={rule.runs} /> : <span className="text-muted">every run</span>}
      </td>
      <td className={`${cell} whitespace-nowrap`} title={dateTime(rule.created_at)}>
        {ago(rule.created_at)}
      </td>
      <td className={`${cell} text-right whitespace-nowrap`}>
        {onDelete && (
          <>
            <EditRule rule={rule} />
            <Confirm
              trigger={
                <Button look="quiet" className="h-7" aria-label={`Delete ${visible(rule.name)}`}>
                  Delete
                </Button>
              }
              title={`Delete ${visible(rule.name)}?`}
              description="What it has found is over, and stays in the list of alerts."
              action="Delete rule"
              onConfirm={onDelete}
            />
          </>
        )}
      </td>
    </tr>
  );
}
