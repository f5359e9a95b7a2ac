// Catches what fails while its children are drawn, and shows something in their place.
import { Component, type ReactNode } from "react";
import { Button } from "./button";
import { CopyBlock } from "./copy";
import { Notice } from "./notice";

// As Chromium, Firefox and WebKit write it, and Vite of a style sheet.
const WORDS = /dynamically imported module|importing a module script failed|unable to preload css/i;

/** Whether an error is that a part of the console did not arrive, which is the network’s or an upgrade’s. */
export function isLoadError(error: unknown): boolean {
  return error instanceof Error && WORDS.test(error.message);
}

interface BoundaryProps {
  /** With another one the children are tried again. */
  of: string;
  show: (error: unknown, again: () => void) => ReactNode;
  children: ReactNode;
}

export class Boundary extends Component<BoundaryProps, { error: unknown }> {
  override state = { error: null };

  static getDerivedStateFromError(error: unknown) {
    return { error: error ?? new Error("an error without a value") };
  }

  override componentDidUpdate(before: BoundaryProps) {
    if (before.of !== this.props.of && this.state.error !== null) this.again();
  }

  again = () => {
    this.setState({ error: null });
  };

  override render() {
    return this.state.error === null
      ? this.props.children
      : this.props.show(this.state.error, this.again);
  }
}

export function errorText(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
}

/** Keeps a failure within one part of a page, which is named. Code that did not arrive is the page's matter. */
export function PartBoundary({ name, children }: { name: string; children: ReactNode }) {
  return (
    <Boundary
      of={name}
      show={(error, again) => <PartError name={name} error={error} again={again} />}
    >
      {children}
    </Boundary>
  );
}

export function PartError({
  name,
  error,
  again,
}: {
  name: string;
  error: unknown;
  again: () => void;
}) {
  if (isLoadError(error)) throw error;
  return (
    <div className="space-y-3 p-4">
      <Notice tone="bad" title={`“${name}” could not be shown. The rest of the page works.`}>
        <p className="mb-3 wrap-anywhere">{errorText(error)}</p>
        <Button onClick={again}>Try again</Button>
      </Notice>
      {error instanceof Error && error.stack && (
        <CopyBlock label={`Where ${name} failed`} text={error.stack} />
      )}
    </div>
  );
}
