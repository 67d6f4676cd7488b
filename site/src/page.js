// Runs on every page of the site: starts the service worker, which keeps what was read for offline.

/** Ask the service worker to keep files; it may not be there, in a private window for one. */
export async function keepOffline(what) {
  if (!("serviceWorker" in navigator)) return;
  const { active } = await navigator.serviceWorker.ready;
  active.postMessage({ keep: what });
}

/** What this page has loaded so far: a service worker that is new came too late to see it. */
function loaded() {
  const files = performance.getEntriesByType("resource").map(({ name }) => name);
  return [location.href, ...files];
}

if ("serviceWorker" in navigator) {
  // This file is one folder below the site's root, where the service worker is.
  const url = new URL("../offline.js", import.meta.url);
  navigator.serviceWorker.addEventListener("controllerchange", () => keepOffline(loaded()));
  navigator.serviceWorker
    .register(url)
    .catch((error) => console.info(`The site is not kept for offline use: ${error.message}`));
}
