// Options that a run takes between two of its steps, and those that it took: from which step on each change holds.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type SyntheticEvent } from "react";
import { fieldsOf } from "../../../api/errors";
import { marksQuery } from "../../../api/metrics";
import { isExported } from "../../../api/offline";
import { changeConfig, hasEnded } from "../../../api/sessions";
import type { ConfigUpdate, Session } from "../../../api/types";
import { markOf } from "../../../live/marks";
import { Button } from "../../../ui/button";
import { TextField } from "../../../ui/field";
import { ErrorNotice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";
import { useMayWrite } from "../../../use-may-write";

export function ConfigChangePanel({ session }: { session: Session }) {
  const mayWrite = useMayWrite();
  const { data } = useQuery(marksQuery(session.id));
  const changes =
    data?.items.flatMap((item) => markOf(item) ?? []).filter(({ kind }) => kind === "change") ?? [];
  const canChange = mayWrite && !isExported && !hasEnded(session) && session.state !== "stopping";
  if (!canChange && changes.length === 0) return null;
  return (
    <Panel title="Changes while it runs">
      {changes.length > 0 && (
        <ol className="divide-y divide-line tabular-nums">
          {changes.map(({ cursor, step, detail }) => (
            <li key={cursor} className="px-4 py-1.5">
              From step {step}: <span className="font-mono text-xs">{detail}</span>
            </li>
          ))}
        </ol>
      )}
      {canChange && <ChangeForm id={session.id} />}
    </Panel>
  );
}

function ChangeForm({ id }: { id: string }) {
  const [rate, setRate] = useState("");
  const [kl, setKl] = useState("");
  const client = useQueryClient();
  const change = useMutation({
    meta: { done: "Changed" },
    mutationFn: (options: ConfigUpdate) => changeConfig(id, options),
    onSuccess: async () => {
      setRate("");
      setKl("");
      await client.invalidateQueries({ queryKey: marksQuery(id).queryKey });
    },
  });
  const fields = fieldsOf(change.error);

  function onSubmit(event: SyntheticEvent) {
    event.preventDefault();
    change.mutate({
      ...(rate.trim() && { learning_rate: Number(rate) }),
      ...(kl.trim() && { kl_coef: Number(kl) }),
    });
  }

  return (
    <form onSubmit={onSubmit} className="space-y-3 border-t border-line p-4" noValidate>
      <ErrorNotice error={change.error} />
      <div className="grid gap-3 sm:grid-cols-2">
        <TextField
          label="Learning rate"
          inputMode="decimal"
          value={rate}
          error={fields.learning_rate}
          onChange={setRate}
        />
        <TextField
          label="KL coefficient"
          inputMode="decimal"
          value={kl}
          error={fields.kl_coef}
          onChange={setKl}
        />
      </div>
      <div className="flex items-center justify-between gap-3">
        <p className="text-xs text-muted">Held from the next step on. What is empty stays.</p>
        <Button type="submit" disabled={change.isPending || (!rate.trim() && !kl.trim())}>
          Change
        </Button>
      </div>
    </form>
  );
}
