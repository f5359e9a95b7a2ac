// Narrows the list of sessions by state and by name.
import { useEffect, useState } from "react";
import { useSearchParams } from "react-router";
import { inputClass } from "../../../ui/field";
import { STATE_CHOICES, withFilter } from "./session-filter";

const PAUSE_MS = 250; // so that a name is asked for once, not at each letter

export function SessionsFilterBar() {
  const [address, setAddress] = useSearchParams();
  const asked = address.get("name") ?? "";
  const [typed, setTyped] = useState(asked);
  const [seen, setSeen] = useState(asked);
  // "Back", and a link that clears the filter, change the address under the input.
  if (asked !== seen) {
    setSeen(asked);
    if (asked !== typed.trim()) setTyped(asked);
  }

  useEffect(() => {
    if (typed.trim() === asked) return;
    const timer = setTimeout(() => {
      setAddress((before) => withFilter(before, "name", typed.trim()), { replace: true });
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
    };
  }, [typed, asked, setAddress]);

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
          setAddress((before) => withFilter(before, "state", event.target.value), { replace: true });
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
