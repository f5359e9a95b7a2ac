// A text that a list is narrowed to: the page's address follows what is typed.
import { useTypedPart } from "./address-part";
import { inputClass } from "./field";

interface SearchInputProps {
  /** Its name in the address. */
  part: string;
  label: string;
  maxLength: number;
  className?: string;
}

export function SearchInput({ part, label, maxLength, className = "max-w-48" }: SearchInputProps) {
  const [typed, setTyped] = useTypedPart(part);
  return (
    <input
      type="search"
      aria-label={label}
      placeholder={`${label}…`}
      maxLength={maxLength}
      className={`${inputClass} ${className}`}
      value={typed}
      onChange={(event) => {
        setTyped(event.target.value);
      }}
    />
  );
}
