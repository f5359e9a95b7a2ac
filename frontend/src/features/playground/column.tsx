// One column: which model, and the conversation with it.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { createServing } from "../../api/serving";
import { sessionsKey } from "../../api/sessions";
import type { BaseModel, Session } from "../../api/types";
import { Button } from "../../ui/button";
import { SelectField } from "../../ui/choices";
import { TextField } from "../../ui/field";
import { ErrorNotice } from "../../ui/notice";
import { visible } from "../../ui/plain-text";
import { Conversation, type Asked } from "./conversation-panel";
import { ENDPOINT, nameOf, savedIds, UNSERVED, type Outside, type Target } from "./targets";

interface ColumnProps {
  label: string;
  /** As the address has it: a session, a model to be served, or an endpoint; empty: nothing was chosen. */
  place: string;
  target: Target | null;
  known: Session[];
  /** Those that can be served; none for who may not start anything. */
  models: BaseModel[];
  outside: Outside;
  onOutside: (outside: Outside) => void;
  /** A new object asks again; null ends what runs. */
  asked: Asked | null;
  draft: Asked;
  onChoose: (place: string) => void;
  onRemove: (() => void) | null;
}

export function Column({
  label,
  place,
  target,
  known,
  models,
  outside,
  onOutside,
  asked,
  draft,
  onChoose,
  onRemove,
}: ColumnProps) {
  const unserved = place.startsWith(UNSERVED) ? place.slice(UNSERVED.length) : "";
  const isNamed = unserved !== "" && !models.some(({ name }) => name === unserved);
  const session = target && "session" in target ? target.session : undefined;
  const isSaved = savedIds(place) !== null;
  return (
    <section
      aria-label={label}
      className="flex min-w-0 flex-col gap-3 rounded-lg border border-line bg-surface p-4"
    >
      <div className="flex items-end gap-2">
        <div className="min-w-0 flex-1">
          <SelectField
            label={label}
            value={session || unserved || isSaved || place === ENDPOINT ? place : ""}
            onChange={onChoose}
          >
            {!session && !unserved && !isSaved && place !== ENDPOINT && (
              <option value="">Choose a model</option>
            )}
            {isSaved && (
              <option value={place}>
                {target && "saved" in target ? visible(target.saved.path) : place}
              </option>
            )}
            {known.length > 0 && (
              <optgroup label="Served models and live runs">
                {known.map((one) => (
                  <option key={one.id} value={one.id}>
                    {visible(nameOf(one))} ({one.state})
                  </option>
                ))}
              </optgroup>
            )}
            {(models.length > 0 || isNamed) && (
              <optgroup label="Not served yet">
                {isNamed && <option value={place}>{visible(unserved)}</option>}
                {models.map(({ name }) => (
                  <option key={name} value={UNSERVED + name}>
                    {name}
                  </option>
                ))}
              </optgroup>
            )}
            <option value={ENDPOINT}>Another endpoint…</option>
          </SelectField>
        </div>
        {onRemove && (
          <Button look="quiet" aria-label={`Remove ${label}`} onClick={onRemove}>
            Remove
          </Button>
        )}
      </div>
      {unserved && <StartServing model={unserved} onStarted={onChoose} />}
      {place === ENDPOINT && <EndpointFields outside={outside} onChange={onOutside} />}
      {!target && !unserved && !isSaved && place !== ENDPOINT && (
        <p role="status" className="text-xs text-warn">
          {place
            ? `${visible(place)} cannot be asked now: it has ended, or is not of this project. Choose another model.`
            : "No model is chosen."}
        </p>
      )}
      {/* Its key is the model: what one answered never stands under the name of another. */}
      <Conversation key={place} target={target} asked={asked} draft={draft} />
    </section>
  );
}

function EndpointFields({
  outside,
  onChange,
}: {
  outside: Outside;
  onChange: (outside: Outside) => void;
}) {
  const field = (name: keyof Outside) => ({
    value: outside[name],
    onChange: (value: string) => {
      onChange({ ...outside, [name]: value });
    },
  });
  return (
    <div className="space-y-2">
      <TextField
        label="Base URL"
        description="Of an OpenAI-compatible API. At this server’s own, a key of the project asks every base model, checkpoint and tinker:// path."
        {...field("baseUrl")}
      />
      <TextField label="Model" {...field("model")} />
      <TextField
        label="Key"
        type="password"
        autoComplete="off"
        description="It stays in this page and goes with each call."
        {...field("key")}
      />
    </div>
  );
}

/** Brings a model that is not served yet into the column. */
function StartServing({
  model,
  onStarted,
}: {
  model: string;
  onStarted: (sessionId: string) => void;
}) {
  const client = useQueryClient();
  const start = useMutation({
    mutationFn: () => createServing(model),
    onSuccess: async ({ id }) => {
      await client.invalidateQueries({ queryKey: sessionsKey });
      onStarted(id);
    },
  });
  return (
    <div className="space-y-2">
      <ErrorNotice error={start.error} />
      <p className="text-xs text-muted">
        {visible(model)} is not served now. A runtime of it uses device time, and suspends after ten
        minutes without a call.
      </p>
      <Button
        disabled={start.isPending}
        onClick={() => {
          start.mutate();
        }}
      >
        Start it
      </Button>
    </div>
  );
}
