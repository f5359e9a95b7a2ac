// Narrows the list of sessions by state, name, tag and pin, and sorts it.
import { useSearchParams } from "react-router";
import { useTypedPart, withPart } from "../../../ui/address-part";
import { inputClass } from "../../../ui/field";
import { filterOf, SORT_CHOICES, STATE_CHOICES } from "./session-filter";

export function SessionsFilterBar() {
  const [address, setAddress] = useSearchParams();
  const [typed, setTyped] = useTypedPart("name");
  const [tag, setTag] = useTypedPart("tag");
  return (
    <search className="mb-3 flex flex-wrap gap-3">
      <input
        type="search"
        aria-label="Name or id contains"
        placeholder="Name or id contains…"
        maxLength={120}
        className={`${inputClass} max-w-64`}
        value={typed}
        onChange={(event) => {
          setTyped(event.target.value);
        }}
      />
      <select
        aria-label="State"
        className={`${inputClass} max-w-44`}
        value={address.get("state") ?? ""}
        onChange={(event) => {
          setAddress((before) => withPart(before, "state", event.target.value), { replace: true });
        }}
      >
        {STATE_CHOICES.map((choice) => (
          <option key={choice.value} value={choice.value}>
            {choice.name}
          </option>
        ))}
      </select>
      <input
        type="search"
        aria-label="Tag"
        placeholder="Tag…"
        maxLength={40}
        className={`${inputClass} max-w-36`}
        value={tag}
        onChange={(event) => {
          setTag(event.target.value);
        }}
      />
      <select
        aria-label="Sorted by"
        className={`${inputClass} max-w-36`}
        value={filterOf(address).sort}
        onChange={(event) => {
          const chosen = event.target.value;
          setAddress((before) => withPart(before, "sort", chosen === "pinned" ? "" : chosen), { replace: true });
        }}
      >
        {SORT_CHOICES.map(({ value, name }) => (
          <option key={value} value={value}>
            {name}
          </option>
        ))}
      </select>
      <label className="flex items-center gap-2">
        <input
          type="checkbox"
          checked={address.get("pinned") === "true"}
          onChange={(event) => {
            const only = event.target.checked;
            setAddress((before) => withPart(before, "pinned", only ? "true" : ""), { replace: true });
          }}
        />
        Pinned only
      </label>
    </search>
  );
}
