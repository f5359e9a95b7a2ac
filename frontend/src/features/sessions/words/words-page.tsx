// What the words of the field mean here and when their numbers are bad, and what each option of a run does.
import { useId } from "react";
import schema from "../../../api/session-config.json";
import { useAddress } from "../../../ui/address-part";
import { Empty, PageHeader, Panel } from "../../../ui/panel";
import { SearchInput } from "../../../ui/search-input";
import { WORDS } from "../../../ui/words";
import { configFields, type OptionSchema } from "../config-fields";

const OPTIONS = configFields(schema as unknown as OptionSchema);

/** The entries with the text in their name or explanation. */
export function found<T>(entries: readonly T[], textOf: (entry: T) => string, typed: string): T[] {
  const wanted = typed.trim().toLowerCase();
  return entries.filter((entry) => textOf(entry).toLowerCase().includes(wanted));
}

export function WordsPage() {
  const [address] = useAddress();
  const typed = address.get("q") ?? "";
  const words = found(Object.values(WORDS), ({ name, what }) => `${name} ${what}`, typed);
  const options = found(OPTIONS, ({ name, description }) => `${name} ${description}`, typed);
  return (
    <>
      <PageHeader title="What is this word" />
      <search className="mb-3 flex">
        <SearchInput part="q" label="A word or an option" maxLength={60} className="max-w-80" />
      </search>
      {words.length + options.length === 0 && <Empty title="No word or option matches" />}
      <div className="space-y-4">
        {words.length > 0 && (
          <Panel title="Words">
            <dl className="divide-y divide-line">
              {words.map(({ name, what, bad }) => (
                <Entry key={name} name={name} what={what} bad={bad} />
              ))}
            </dl>
          </Panel>
        )}
        {options.length > 0 && (
          <Panel title="Options of a run">
            <dl className="divide-y divide-line">
              {options.map(({ name, description, default: usual }) => (
                <Entry
                  key={name}
                  name={name}
                  what={description}
                  note={usual === null ? "" : `Default ${String(usual)}.`}
                  isCode
                />
              ))}
            </dl>
          </Panel>
        )}
      </div>
    </>
  );
}

function Entry({
  name,
  what,
  bad = "",
  note = "",
  isCode = false,
}: {
  name: string;
  what: string;
  bad?: string;
  note?: string;
  isCode?: boolean;
}) {
  const id = useId();
  return (
    <div className="grid gap-x-4 gap-y-1 px-4 py-2 sm:grid-cols-[14rem_minmax(0,1fr)]">
      <dt id={id} className={isCode ? "font-mono text-xs break-words" : "font-medium"}>
        {name}
      </dt>
      <dd aria-labelledby={id} className="max-w-prose">
        {what} {note && <span className="text-muted">{note}</span>}
        {bad && (
          <span className="mt-1 block text-muted">
            <span className="font-medium text-ink">Bad when: </span>
            {bad}
          </span>
        )}
      </dd>
    </div>
  );
}
