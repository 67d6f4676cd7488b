// Runs on every page of the site: starts the service worker, which keeps what was read for offline.

if ("serviceWorker" in navigator) {
  // bench/page.js is one folder below the site's root, where the service worker is.
  const url = new URL("../offline.js", import.meta.url);
  navigator.serviceWorker.register(url).catch((error) => {
    // A private window may refuse it; the site works without.
    console.info(`The site is not kept for offline: ${error.message}`);
  });
}
