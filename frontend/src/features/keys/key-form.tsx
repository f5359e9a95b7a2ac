// What a new key may do, for how long, and how much it may spend.
import { useState, type SyntheticEvent } from "react";
import { fieldsOf } from "../../api/errors";
import type { BaseModel, KeyCreate, Scope } from "../../api/types";
import { Button } from "../../ui/button";
import { Choices, SelectField } from "../../ui/choices";
import { TextField } from "../../ui/field";
import { ErrorNotice } from "../../ui/notice";
import { SCOPES } from "./scopes";

const LIFETIMES = [
  { days: 0, name: "Never" },
  { days: 7, name: "In a week" },
  { days: 30, name: "In 30 days" },
  { days: 90, name: "In 90 days" },
  { days: 365, name: "In a year" },
];

interface KeyFormProps {
  models: BaseModel[];
  error: Error | null;
  busy: boolean;
  /** A viewer's keys can only read. */
  readOnly: boolean;
  onSubmit: (body: KeyCreate) => void;
}

export function KeyForm({ models, error, busy, readOnly, onSubmit }: KeyFormProps) {
  const offered = SCOPES.filter((scope) => !readOnly || scope.value.endsWith(":read"));
  const [name, setName] = useState("");
  const [days, setDays] = useState(0);
  const [scopes, setScopes] = useState<Scope[]>(offered.map((scope) => scope.value));
  const [allowed, setAllowed] = useState<string[]>([]);
  const [hours, setHours] = useState("");
  const fields = fieldsOf(error);

  function submit(event: SyntheticEvent) {
    event.preventDefault();
    onSubmit({
      name: name.trim(),
      scopes,
      expires_in_days: days || null,
      allowed_models: allowed.length ? allowed : null,
      spend_cap_s: hours.trim() ? Math.round(Number(hours) * 3600) : null,
    });
  }

  return (
    <form onSubmit={submit} className="space-y-4" noValidate>
      <ErrorNotice error={error} />
      <TextField
        label="Name"
        placeholder="laptop"
        maxLength={120}
        value={name}
        onChange={setName}
        error={fields.name}
      />
      <Choices
        legend="This key may"
        options={offered}
        chosen={scopes}
        onChange={setScopes}
        error={fields.scopes}
      />
      <SelectField
        label="Expires"
        value={days}
        onChange={(value) => {
          setDays(Number(value));
        }}
        error={fields.expires_in_days}
      >
        {LIFETIMES.map((lifetime) => (
          <option key={lifetime.days} value={lifetime.days}>
            {lifetime.name}
          </option>
        ))}
      </SelectField>
      {models.length > 0 && (
        <Choices
          legend="Only for these base models (none ticked: every model)"
          options={models.map((model) => ({ value: model.name, name: model.name }))}
          chosen={allowed}
          onChange={setAllowed}
        />
      )}
      <TextField
        label="Spending cap, in device-hours"
        type="number"
        min="0"
        step="any"
        placeholder="no cap"
        value={hours}
        onChange={setHours}
        description="One GPU for an hour is one; a session without a GPU counts as one GPU. At the cap its sessions write a model checkpoint and stop."
        error={fields.spend_cap_s}
      />
      <div className="flex justify-end">
        <Button type="submit" look="primary" disabled={busy}>
          Create key
        </Button>
      </div>
    </form>
  );
}
