// Text to take away: a block of code with a button that copies it.
import { useRef, useState } from "react";
import { Button } from "./button";

/** Whether the text was copied a moment ago, and what copies it. */
function useCopied(text: string): [copied: boolean, copy: () => Promise<void>] {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => {
      setCopied(false);
    }, 2000);
  };
  return [copied, copy];
}

export function CopyBlock({ label, text }: { label: string; text: string }) {
  const block = useRef<HTMLPreElement>(null);
  const [copied, copy] = useCopied(text);

  // Without TLS a browser offers no clipboard: the text is then selected, for the user to copy with the keyboard.
  async function copyOrSelect() {
    try {
      await copy();
    } catch {
      if (block.current) getSelection()?.selectAllChildren(block.current);
    }
  }

  return (
    <div className="overflow-hidden rounded-md border border-line bg-sunken text-left">
      <div className="flex items-center justify-between border-b border-line py-1 pr-1 pl-3">
        <span className="text-xs font-medium text-muted">{label}</span>
        <Button
          look="quiet"
          className="h-6 px-2 text-xs"
          onClick={() => void copyOrSelect()}
          aria-label={`Copy ${label}`}
        >
          <span aria-live="polite">{copied ? "Copied" : "Copy"}</span>
        </Button>
      </div>
      <pre
        ref={block}
        tabIndex={0}
        translate="no"
        className="max-h-72 overflow-auto p-3 font-mono text-xs leading-relaxed"
      >
        {text}
      </pre>
    </div>
  );
}

/** A short text in one line, such as an id: a click copies it. */
export function CopyText({ label, text }: { label: string; text: string }) {
  return (
    <span className="inline-flex items-center gap-1 font-mono text-xs text-muted">
      <span translate="no">{text}</span>
      <CopyButton label={label} text={text} />
    </span>
  );
}

/** Without TLS a browser offers no clipboard: there is no button then, and the text can still be selected. */
export function CopyButton({
  label,
  text,
  className = "",
}: {
  label: string;
  text: string;
  className?: string;
}) {
  const [copied, copy] = useCopied(text);
  if (!window.isSecureContext) return null;
  return (
    <Button
      look="quiet"
      className={`h-6 px-1.5 text-xs ${className}`}
      onClick={() => void copy()}
      aria-label={`Copy ${label}`}
    >
      <span aria-live="polite">{copied ? "Copied" : "Copy"}</span>
    </Button>
  );
}
