// A page whose code did not arrive: no network, or a newer version of the console replaced this one.
import { Component, type ReactNode } from "react";
import { useLocation } from "react-router";
import { Button } from "./ui/button";
import { Notice } from "./ui/notice";

/** Shows that it failed in place of `children`, until another page is opened. */
export function RouteErrorBoundary({ children }: { children: ReactNode }) {
  return <Boundary path={useLocation().pathname}>{children}</Boundary>;
}

interface BoundaryProps {
  path: string;
  children: ReactNode;
}

class Boundary extends Component<BoundaryProps, { hasFailed: boolean }> {
  override state = { hasFailed: false };

  static getDerivedStateFromError() {
    return { hasFailed: true };
  }

  override componentDidUpdate(before: BoundaryProps) {
    if (before.path !== this.props.path && this.state.hasFailed) this.setState({ hasFailed: false });
  }

  override render() {
    return this.state.hasFailed ? <RouteError /> : this.props.children;
  }
}

function RouteError() {
  return (
    <div className="mx-auto max-w-lg p-8">
      <Notice tone="bad" title="This page could not be loaded.">
        <p className="mb-3">Check that you are online and that the server runs. If it was just upgraded, reloading is enough.</p>
        <Button
          onClick={() => {
            location.reload();
          }}
        >
          Reload
        </Button>
      </Notice>
    </div>
  );
}
