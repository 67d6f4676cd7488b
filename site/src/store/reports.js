// The last report of each lab, for after a reload. A browser that stores nothing has none.

import { finished, openReports, REPORT, settled } from "./database.js";

/**
 * @typedef {object} LastReport
 * @property {object} report of `labkit.browser.verbs.run`
 * @property {{name: string, text: string}[]} printed
 * @property {string} code the code under test
 */

/**
 * @param {string} lab
 * @returns {Promise<LastReport | null>}
 */
export async function lastReport(lab) {
  try {
    const database = await openReports();
    return (await settled(database.transaction(REPORT).objectStore(REPORT).get(lab))) ?? null;
  } catch {
    return null;
  }
}

/**
 * @param {string} lab
 * @param {LastReport} last
 */
export async function keepReport(lab, last) {
  try {
    const transaction = (await openReports()).transaction(REPORT, "readwrite");
    const done = finished(transaction);
    transaction.objectStore(REPORT).put(last, lab);
    await done;
  } catch (error) {
    console.info(`The report is not kept: ${error.message}`);
  }
}
