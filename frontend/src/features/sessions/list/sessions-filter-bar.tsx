// Narrows the list of sessions by state and by name.
import { useSearchParams } from "react-router";
import { useTypedPart, withPart } from "../../../ui/address-part";
import { inputClass } from "../../../ui/field";
import { STATE_CHOICES } from "./session-filter";

export function SessionsFilterBar() {
  const [address, setAddress] = useSearchParams();
  const [typed, setTyped] = useTypedPart("name");
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
    </search>
  );
}
