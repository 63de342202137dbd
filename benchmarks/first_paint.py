"""How soon a page shows its picture, in headless Chromium without a GPU: pages are compared in turns, load by load.

python -m benchmarks.first_paint OLD.html NEW.html --loads 21
"""

import argparse
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from tools.check_tools import chromium

# Record when the first box is in the document, and when the frame with this box is painted.
WATCH = """new MutationObserver((_, observer) => {
    if (!document.querySelector(".nbg-node")) return;
    observer.disconnect();
    window.drawn = performance.now();
    requestAnimationFrame(() => {
        const channel = new MessageChannel();
        channel.port1.onmessage = () => (window.painted = performance.now());
        channel.port2.postMessage(0);
    });
}).observe(document, { childList: true, subtree: true })"""

TIMES = """() => {
    const first = performance.getEntriesByName("first-contentful-paint")[0];
    return window.painted && first ? [first.startTime, window.drawn, window.painted] : null;
}"""

NAMES = ("first paint", "drawn", "painted", "work")


def load(browser: Browser, file: Path) -> list[float]:
    """Open a page in a profile of its own.

    Returns:
        Milliseconds: the first contentful paint, the first box in the document, the frame with it, and how long the
        main thread worked.
    """
    context = browser.new_context(viewport={"width": 1440, "height": 790})
    tab = context.new_page()
    tab.add_init_script(WATCH)
    session = context.new_cdp_session(tab)
    session.send("Performance.enable")
    tab.goto(file.resolve().as_uri())
    times: Any = None
    while times is None:
        tab.wait_for_timeout(10)
        times = tab.evaluate(TIMES)
    metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    context.close()
    return [*times, 1000 * metrics["TaskDuration"]]


def main() -> None:
    """Print the medians of each page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--loads", type=int, default=21)
    options = parser.parse_args()
    found: dict[Path, list[list[float]]] = {file: [] for file in options.pages}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium())
        for number in range(options.loads + 1):
            for file in options.pages:
                times = load(browser, file)
                if number:  # the first one starts processes
                    found[file].append(times)
        browser.close()
    for file, loads in found.items():
        told = [f"{name} {median(times):.0f} ms" for name, times in zip(NAMES, zip(*loads, strict=True), strict=True)]
        print(f"{file}: {', '.join(told)}")


if __name__ == "__main__":
    main()
