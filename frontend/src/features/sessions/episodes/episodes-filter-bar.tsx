// Narrows and sorts the list of episodes; each change is in the address.
import { useAddress, useTypedPart } from "../../../ui/address-part";
import { Options } from "../../../ui/choices";
import { inputClass } from "../../../ui/field";
import { MoreFilters } from "../../../ui/more-filters";
import { visible } from "../../../ui/plain-text";
import { FATES, SORTS } from "./episode-filter";
import { columnsIn, withColumn } from "./own-columns";

/** `measured`: what agents measured of the episodes that are shown. */
export function EpisodesFilterBar({ measured }: { measured: readonly string[] }) {
  const [address, setAddress] = useAddress();
  const choose = (name: string) => ({
    value: address.get(name) ?? "",
    onChange: (event: { target: { value: string } }) => {
      setAddress({ [name]: event.target.value });
    },
  });
  return (
    <search className="mb-3 flex flex-wrap items-end gap-2">
      <Typed name="q" label="Text" hint="in task, question or answer" wide />
      <Typed name="task" label="Task" hint="exactly" />
      <Select
        label="Fate"
        {...choose("fate")}
        choices={[{ value: "", name: "Every fate" }, ...FATES]}
      />
      <Select
        label="Sorted by"
        {...choose("sort")}
        choices={[{ value: "", name: "Newest" }, ...SORTS.slice(1)]}
      />
      {(measured.length > 0 || columnsIn(address).length > 0) && (
        <Select
          label="Columns"
          value=""
          onChange={(event) => {
            const name = event.target.value;
            setAddress((before) => withColumn(before, name));
          }}
          choices={[
            { value: "", name: "Add or remove…" },
            ...[...new Set([...columnsIn(address), ...measured])].map((name) => ({
              value: name,
              name: `${columnsIn(address).includes(name) ? "✓ " : ""}${visible(name)}`,
            })),
          ]}
        />
      )}
      <MoreFilters
        parts={[
          "agent",
          "reward_min",
          "reward_max",
          "version",
          "step",
          "eval",
          "thumb",
          "commented",
          "metric",
        ]}
      >
        <Typed name="agent" label="Agent" hint="exactly" />
        <Typed name="reward_min" label="Reward from" number />
        <Typed name="reward_max" label="to" number />
        <Typed name="version" label="Version" number />
        <Typed name="step" label="Step" number />
        <Select
          label="Evaluation"
          {...choose("eval")}
          choices={[
            { value: "", name: "Both" },
            { value: "true", name: "Only" },
            { value: "false", name: "Without" },
          ]}
        />
        <Select
          label="Thumb"
          {...choose("thumb")}
          choices={[
            { value: "", name: "Any or none" },
            { value: "up", name: "Good" },
            { value: "down", name: "Bad" },
          ]}
        />
        <Select
          label="Comment"
          {...choose("commented")}
          choices={[
            { value: "", name: "Any or none" },
            { value: "true", name: "With" },
            { value: "false", name: "Without" },
          ]}
        />
        <Typed name="metric" label="Measured" hint="turns>=3" />
      </MoreFilters>
    </search>
  );
}

interface SelectProps {
  label: string;
  value: string;
  onChange: (event: { target: { value: string } }) => void;
  choices: { value: string; name: string }[];
}

function Select({ label, choices, ...rest }: SelectProps) {
  return (
    <label className="text-xs text-muted">
      {label}
      <select className={`${inputClass} mt-0.5 block min-w-28 text-sm`} {...rest}>
        <Options of={choices} />
      </select>
    </label>
  );
}

function Typed({
  name,
  label,
  hint,
  number = false,
  wide = false,
}: {
  name: string;
  label: string;
  hint?: string;
  number?: boolean;
  wide?: boolean;
}) {
  const [typed, setTyped] = useTypedPart(name);
  return (
    <label className="text-xs text-muted">
      {label}
      <input
        type={number ? "number" : "search"}
        step="any"
        placeholder={hint}
        maxLength={200}
        className={`${inputClass} mt-0.5 block text-sm ${wide ? "w-56!" : number ? "w-24!" : "w-32!"}`}
        value={typed}
        onChange={(event) => {
          setTyped(event.target.value);
        }}
      />
    </label>
  );
}
