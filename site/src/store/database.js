// Databases of the browser, as promises.

/** The result of a request. */
export function settled(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

/** The end of a transaction. */
export function finished(transaction) {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(transaction.error ?? new Error("not stored"));
  });
}

/** A database with some stores; it is made if it is not there. */
function open(name, stores) {
  const request = indexedDB.open(name, 1);
  request.onupgradeneeded = () => {
    for (const store of stores) request.result.createObjectStore(store);
  };
  return settled(request);
}

export const CODE = "code";
export const PROGRESS = "progress";
export const REPORT = "report";

/** The database of code and progress, which an export has. */
export const openCourse = () => open("course", [CODE, PROGRESS]);

/** The database of the last reports, which can be lost without harm. */
export const openReports = () => open("course-reports", [REPORT]);

/** The records of progress in their store, by the lab's name. */
export async function readProgress(store) {
  const [names, records] = await Promise.all([settled(store.getAllKeys()), settled(store.getAll())]);
  return Object.fromEntries(names.map((name, place) => [name, records[place]]));
}
