// pg-boss: one queue, one work() loop; NOTIFY of the queue is on where the settings use it.
export default (require) => {
  const { PgBoss } = require("pg-boss");
  const start = async (dsn, options) => {
    const boss = new PgBoss({ connectionString: dsn, schedule: false, ...options });
    boss.on("error", (error) => console.error(error));
    await boss.start();
    return boss;
  };
  return {
    CHUNK: 10_000,

    async install({ dsn }) {
      const boss = await start(dsn, {});
      await boss.createQueue("bench", { notify: true });
      await boss.stop({ graceful: false });
    },

    async sender({ dsn }) {
      const boss = await start(dsn, { supervise: false });
      return {
        one: (args) => boss.send("bench", args),
        many: (jobs) => boss.insert("bench", jobs.map((data) => ({ data }))),
        close: () => boss.stop({ graceful: false }),
      };
    },

    async work({ dsn, settings }, hit) {
      const { work, ...options } = settings;
      const boss = await start(dsn, options);
      await boss.work("bench", work ?? {}, async (jobs) => jobs.forEach((job) => hit(job.data)));
    },
  };
};
