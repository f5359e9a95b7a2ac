// Makes a rule, or changes one.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState, type SyntheticEvent } from "react";
import { alertRulesQuery, saveRule } from "../../api/alerts";
import { fieldsOf } from "../../api/errors";
import { OWN } from "../../api/metrics";
import type { MetricRule } from "../../api/types";
import { Button } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { SelectField } from "../../ui/choices";
import { TextField } from "../../ui/field";
import { ErrorNotice } from "../../ui/notice";
import { visible } from "../../ui/plain-text";
import { MEASURES } from "./measures";

export function EditRule({ rule }: { rule: MetricRule }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button
        look="quiet"
        className="h-7"
        aria-label={`Edit ${visible(rule.name)}`}
        onClick={() => {
          setOpen(true);
        }}
      >
        Edit
      </Button>
      <RuleDialog rule={rule} open={open} onOpenChange={setOpen} />
    </>
  );
}

/** `rule`: the one to change; null for a new one. */
export function RuleDialog({
  rule,
  open,
  onOpenChange,
}: {
  rule: MetricRule | null;
  open: boolean;
  onOpenChange: (open: boolean) => void;
}) {
  return (
    <Dialog
      open={open}
      onOpenChange={onOpenChange}
      title={rule ? "Edit rule" : "New rule"}
      description={
        rule
          ? "What it has found so far is over; it is compared with the steps that follow."
          : "An alert is raised while a measure is beyond a bound."
      }
    >
      <RuleForm
        rule={rule}
        onDone={() => {
          onOpenChange(false);
        }}
      />
    </Dialog>
  );
}

function RuleForm({ rule, onDone }: { rule: MetricRule | null; onDone: () => void }) {
  const client = useQueryClient();
  const [name, setName] = useState(rule?.name ?? "");
  const [metric, setMetric] = useState(rule?.metric ?? "reward_mean");
  const [above, setAbove] = useState(rule?.above ?? false);
  const [value, setValue] = useState(rule ? String(rule.value) : "");
  const [steps, setSteps] = useState(String(rule?.steps ?? 5));
  const [runs, setRuns] = useState(rule?.runs ?? "");
  const save = useMutation({
    meta: { done: "The rule is saved" },
    mutationFn: saveRule,
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: alertRulesQuery.queryKey });
      onDone();
    },
  });
  const isOwn = metric.startsWith(OWN);
  const fields = fieldsOf(save.error);

  function submit(event: SyntheticEvent) {
    event.preventDefault();
    const body = {
      name: name.trim(),
      metric,
      above,
      value: numberIn(value),
      steps: numberIn(steps),
      runs: runs.trim(),
    };
    save.mutate({ id: rule?.id ?? null, body });
  }

  return (
    <form onSubmit={submit} className="space-y-4" noValidate>
      <ErrorNotice error={save.error} />
      <TextField
        label="Name"
        maxLength={60}
        value={name}
        onChange={setName}
        description="Letters, digits, spaces, _ and -."
        error={fields.name}
      />
      <SelectField
        label="Measure"
        value={isOwn ? OWN : metric}
        onChange={setMetric}
        error={isOwn ? undefined : fields.metric}
      >
        {Object.entries(MEASURES).map(([one, words]) => (
          <option key={one} value={one}>
            {words}
          </option>
        ))}
        <option value={OWN}>Measured by the agent…</option>
      </SelectField>
      {isOwn && (
        <TextField
          label="Name of what it measures"
          maxLength={212}
          value={metric.slice(OWN.length)}
          onChange={(value) => {
            setMetric(OWN + value);
          }}
          description="A metric, reward/<part> or rewards_by_agent/<agent>: the mean over a step’s episodes."
          error={fields.metric}
        />
      )}
      <div className="grid grid-cols-2 gap-3">
        <SelectField
          label="Is"
          value={above ? "above" : "below"}
          onChange={(value) => {
            setAbove(value === "above");
          }}
        >
          <option>above</option>
          <option>below</option>
        </SelectField>
        <TextField
          label="Value"
          inputMode="decimal"
          value={value}
          onChange={setValue}
          error={fields.value}
        />
      </div>
      <TextField
        label="Steps in a row"
        type="number"
        min={1}
        max={50}
        value={steps}
        onChange={setSteps}
        description="Those without the measure do not count."
        error={fields.steps}
      />
      <TextField
        label="Runs"
        maxLength={120}
        value={runs}
        onChange={setRuns}
        description="Part of their name or id; empty: every run."
        error={fields.runs}
      />
      <div className="flex justify-end">
        <Button type="submit" look="primary" disabled={save.isPending}>
          {rule ? "Save" : "Create rule"}
        </Button>
      </div>
    </form>
  );
}

/** What is no number is sent as it was typed: the server refuses it by its field's name. */
function numberIn(typed: string): number {
  const text = typed.trim();
  return text === "" || Number.isNaN(Number(text)) ? (text as unknown as number) : Number(text);
}
