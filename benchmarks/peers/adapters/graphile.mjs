// Graphile Worker: a preset from the settings; without any, run() as it is.
export default (require) => {
  const { run, makeWorkerUtils, runMigrations, Logger } = require("graphile-worker");
  const logger = new Logger(() => () => {});
  return {
    CHUNK: 10_000,

    async install({ dsn }) {
      await runMigrations({ connectionString: dsn, logger });
    },

    async sender({ dsn }) {
      const utils = await makeWorkerUtils({ connectionString: dsn, logger });
      return {
        one: (args) => utils.addJob("bench", args),
        many: (jobs) => utils.addJobs(jobs.map((payload) => ({ identifier: "bench", payload }))),
        close: () => utils.release(),
      };
    },

    async work({ dsn, settings }, hit) {
      const taskList = { bench: async (args) => hit(args) };
      if (Object.keys(settings).length === 0) await run({ connectionString: dsn, taskList, logger });
      else await run({ taskList, logger, preset: { worker: { connectionString: dsn, ...settings } } });
    },
  };
};
