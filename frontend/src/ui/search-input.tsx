// A text that a list is narrowed to: the page's address follows what is typed.
import { useId } from "react";
import { useTypedPart } from "./address-part";
import { inputClass } from "./field";

interface SearchInputProps {
  /** Its name in the address. */
  part: string;
  label: string;
  maxLength: number;
  className?: string;
  /** What is offered while it is typed. */
  proposals?: readonly string[];
}

export function SearchInput({
  part,
  label,
  maxLength,
  className = "max-w-48",
  proposals = [],
}: SearchInputProps) {
  const [typed, setTyped] = useTypedPart(part);
  const list = useId();
  return (
    <>
      <input
        type="search"
        aria-label={label}
        placeholder={`${label}…`}
        maxLength={maxLength}
        list={proposals.length > 0 ? list : undefined}
        className={`${inputClass} ${className}`}
        value={typed}
        onChange={(event) => {
          setTyped(event.target.value);
        }}
      />
      {proposals.length > 0 && (
        <datalist id={list}>
          {proposals.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      )}
    </>
  );
}
