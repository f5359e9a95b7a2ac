// The form that starts a session.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { ChevronRight } from "lucide-react";
import { Collapsible } from "radix-ui";
import { useEffect, useRef, useState, type SyntheticEvent } from "react";
import { useNavigate, useSearchParams } from "react-router";
import { accountQuery } from "../../../api/account";
import { baseModelsQuery } from "../../../api/server";
import { createSession, planSession, sessionQuery, sessionsKey } from "../../../api/sessions";
import type { BaseModel, SessionCreate } from "../../../api/types";
import { Button, ButtonLink } from "../../../ui/button";
import { SelectField } from "../../../ui/choices";
import { TextField } from "../../../ui/field";
import { count } from "../../../ui/format";
import { Loading } from "../../../ui/loading";
import { ErrorNotice } from "../../../ui/notice";
import { Empty, PageHeader } from "../../../ui/panel";
import { readTurn } from "../budget";
import { useMayWrite } from "../../../use-may-write";
import { BudgetInputs, ConfigInputs } from "./config-inputs";
import { defaultText, nested, readForm } from "../config-fields";
import { ADVANCED, FIELDS, MAIN_GROUPS } from "./config-layout";
import { serverErrors } from "./form-errors";
import { refusedPlan } from "./plan";
import { PlanPanel } from "./plan-panel";
import { EMPTY, isTrained, startOf, withKept, withText, type Start } from "./run-again";

const DEFAULTS = Object.fromEntries(FIELDS.map((field) => [field.name, field.default]));

/** `?from=` names the session whose options the form begins with, `?checkpoint=` one of its checkpoints to go on from. */
export function NewSessionPage() {
  const [address] = useSearchParams();
  const from = address.get("from") ?? "";
  const checkpoint = address.get("checkpoint") ?? "";
  const { data, error } = useQuery({
    ...sessionQuery(from),
    enabled: from !== "",
    refetchInterval: false,
  });
  const mayWrite = useMayWrite();
  const { data: account } = useQuery(accountQuery);
  if (account && !mayWrite)
    return (
      <Empty isPage title="Viewers cannot start sessions">
        An owner of the project can make you a member.
      </Empty>
    );
  if (from === "") return <NewSessionForm start={EMPTY} />;
  if (data)
    return <NewSessionForm key={from + checkpoint} start={startOf(data, FIELDS, checkpoint)} />;
  return error ? <ErrorNotice error={error} /> : <Loading />;
}

function NewSessionForm({ start }: { start: Start }) {
  const models = useQuery(baseModelsQuery);
  const [chosen, setChosen] = useState(start.baseModel);
  const [name, setName] = useState(start.name);
  const [texts, setTexts] = useState(start.texts);
  const [checked, setChecked] = useState<Record<string, string>>({});
  const [advanced, setAdvanced] = useState(Object.keys(start.kept).length > 0); // what is kept is seen
  const form = useRef<HTMLFormElement>(null);
  const client = useQueryClient();
  const navigate = useNavigate();
  const create = useMutation({
    mutationFn: createSession,
    onSuccess: async (session) => {
      await client.invalidateQueries({ queryKey: sessionsKey });
      await navigate(`/sessions/${session.id}`);
    },
  });
  const check = useMutation({ mutationFn: planSession });
  const refusal = create.error ?? check.error;
  const refused = refusedPlan(refusal);
  const errors = { ...serverErrors(refusal), ...checked };
  const wrongInAdvanced = ADVANCED.some((group) => group.names.some((field) => errors[field]));
  const wrong = Object.keys(errors).join();

  useEffect(() => {
    if (wrong) form.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus();
  }, [wrong]);

  const baseModel = chosen || (models.data?.items[0]?.name ?? "");

  /** Sends what was typed, to be checked or created, unless it can be seen here that it is wrong. */
  function send(to: typeof check | typeof create) {
    const options = readForm(FIELDS, texts);
    const turn = readTurn(texts);
    forget();
    setChecked({ ...options.errors, ...turn.errors });
    if (Object.keys({ ...options.errors, ...turn.errors }).length > 0) return;
    const config = nested({
      ...(isTrained(baseModel) ? DEFAULTS : {}),
      ...withKept(options.values, start, texts),
    });
    to.mutate({
      base_model: baseModel,
      name: name.trim(),
      config,
      ...turn.values,
    } as SessionCreate);
  }

  /** An answer is about what was sent: it goes when that changes. */
  function forget() {
    create.reset();
    check.reset();
  }

  function submit(event: SyntheticEvent) {
    event.preventDefault();
    send(create);
  }

  function change(field: string, text: string) {
    forget();
    setTexts((before) => withText(before, field, text));
    setChecked((before) =>
      Object.fromEntries(Object.entries(before).filter(([key]) => key !== field)),
    );
  }

  const inputs = { texts, errors, onChange: change };
  const optionInputs = { fields: FIELDS, kept: start.kept, ...inputs };
  return (
    <form ref={form} onSubmit={submit} noValidate aria-label="New session">
      <PageHeader title="New session" />
      <div className="space-y-4">
        <ErrorNotice error={models.error ?? refusal} />
        <div className="divide-y divide-line rounded-lg border border-line bg-surface">
          <div className="grid gap-x-5 gap-y-4 p-4 sm:grid-cols-2">
            <SelectField
              label="Base model"
              description={
                isTrained(baseModel)
                  ? TRAINED
                  : modelText(models.data?.items.find((model) => model.name === baseModel))
              }
              error={errors.base_model}
              value={baseModel}
              onChange={(value) => {
                forget();
                setChosen(value);
              }}
            >
              {offered(models.data?.items ?? [], baseModel).map((model) => (
                <option key={model}>{model}</option>
              ))}
            </SelectField>
            <TextField
              label="Name"
              placeholder="arithmetic, first try"
              description="What this console calls it. May stay empty."
              maxLength={120}
              error={errors.name}
              value={name}
              onChange={setName}
            />
          </div>
          <ConfigInputs groups={MAIN_GROUPS} {...optionInputs} />
          <BudgetInputs {...inputs} />
          <Collapsible.Root open={advanced || wrongInAdvanced} onOpenChange={setAdvanced}>
            <Collapsible.Trigger className="flex w-full items-center gap-2 px-4 py-3 text-left font-medium hover:bg-sunken">
              <ChevronRight
                className={`size-3.5 text-muted transition-transform ${advanced || wrongInAdvanced ? "rotate-90" : ""}`}
              />
              Advanced options
            </Collapsible.Trigger>
            <Collapsible.Content className="divide-y divide-line border-t border-line">
              <ConfigInputs groups={ADVANCED} {...optionInputs} />
            </Collapsible.Content>
          </Collapsible.Root>
        </div>
        {check.data && (
          <PlanPanel
            plan={check.data}
            queuePosition={check.data.queue_position}
            said={[check.data.quantised, check.data.experts, check.data.prefixes]}
          />
        )}
        {refused && <PlanPanel plan={refused} queuePosition={null} />}
        <div className="flex items-center justify-end gap-3">
          <BatchSize texts={texts} />
          <ButtonLink to="/sessions">Cancel</ButtonLink>
          <Button
            onClick={() => {
              send(check);
            }}
            disabled={check.isPending || !baseModel}
          >
            Check
          </Button>
          <Button type="submit" look="primary" disabled={create.isPending || !baseModel}>
            Start session
          </Button>
        </div>
      </div>
    </form>
  );
}

const TRAINED =
  "A checkpoint of this project. It gives its weights, and a run’s own state its optimizer too. Steps count from 0.";

/** The catalogue's, and one that another run had and that is no longer in it: the server says what is to be done. */
function offered(models: { name: string }[], chosen: string): string[] {
  const names = models.map(({ name }) => name);
  return chosen === "" || names.includes(chosen) ? names : [...names, chosen];
}

function modelText(model: BaseModel | undefined): string {
  if (!model) return "";
  return [
    model.parameters && `${count(model.parameters)} weights`,
    model.context_length && `${model.context_length.toLocaleString("en")} tokens of context`,
    model.tools !== null && (model.tools ? "calls tools" : "no tools"),
    model.thoughts !== null && (model.thoughts ? "thinks" : "no thoughts"),
    model.images !== null && (model.images ? "images kept, not served" : "no images"),
    model.license,
  ]
    .filter(Boolean)
    .join(" · ");
}

function BatchSize({ texts }: { texts: Record<string, string> }) {
  const [perGroup, groups] = ["grpo_n", "tasks_per_batch"].map((name) => {
    const field = FIELDS.find((one) => one.name === name);
    return Number(texts[name] ?? (field ? defaultText(field) : ""));
  });
  const episodes = (perGroup ?? 0) * (groups ?? 0);
  if (!Number.isInteger(episodes) || episodes <= 0) return null;
  return (
    <p className="mr-auto text-muted">
      A step trains {groups} tasks × {perGroup} attempts ={" "}
      <span className="font-medium text-ink">{episodes.toLocaleString("en")} episodes</span>
    </p>
  );
}
