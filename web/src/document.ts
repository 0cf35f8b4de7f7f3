// The types of what report/html embeds in a page: see document.go there, and
// results/rundir/types.go for run.json. Times are seconds, sizes bytes, rates per second.

export const version = 1;

export interface Report {
  version: number;
  run: Run;
  answer: Answer;
  incomplete?: Message[];
  trials?: Trial[];
  checks?: Check[];
  unavailable?: Message[];
  unreadable?: string[];
  curves?: Curve[];
  timelines?: Timeline[];
  timelines_left_out?: number;
  explanations?: Explanation[];
  flames?: Flames;
}

/** A sentence as data: package texts has the words. Where run.json has a sentence in English,
 * the same as data is in the field because beside it; of a field X beyond the first, in
 * X_because. Folders of earlier versions have the English alone. */
export interface Message {
  kind: string;
  values?: Record<string, string>;
  parts?: Record<string, Message[]>;
}

/** A table of cells that need no language, but for those under heads that have words. */
export interface Brief {
  kind: string;
  head: string[];
  rows: string[][];
}

/** What a run comes to: see report/answer.go. */
export interface Answer {
  says: Message[];
  table?: Brief;
  sure?: Message[];
  broke?: Message[];
  trust?: Message[];
  asked?: Message[];
  again?: Message[];
  next?: Message;
}

/** What may be said of a figure, or of a ratio. */
export interface Validity {
  figure: string;
  variant: string;
  base?: string;
  state: string;
  low?: number;
  high?: number;
  why?: string;
  because?: Message;
  causes?: string[];
  asked?: boolean;
}

export interface Estimate {
  estimate?: number;
  low?: number;
  high?: number;
  confidence?: number;
  values?: number[];
  interval?: string;
}

export interface Run {
  name: string;
  question?: string;
  started_at: string;
  finished_at?: string;
  complete: boolean;
  valid: boolean;
  reason?: string;
  because?: Message;
  trials_planned: number;
  plan: Plan;
  environment: Environment;
  rounds: number;
  stopped?: string;
  stopped_because?: Message;
  pilot?: { warmup_seconds: number };
  variants: Variant[] | null;
  comparisons: Comparison[] | null;
  ladder?: Step[];
  sweeps?: Sweep[];
  capacities?: Capacity[];
  trends?: Trend[];
  thresholds: Threshold[] | null;
  claims: Claim[] | null;
  flags: Flag[] | null;
  validity?: Validity[] | null;
  notes?: string[];
  notes_because?: (Message | null)[];
  command_line?: string[];
  dyno_version?: string;
}

export interface Plan {
  file?: string;
  source?: string;
  short: boolean;
  rounds: number;
  seed: number;
  margin?: number;
  metric?: string;
  base?: string;
  control?: string;
  set?: Record<string, string>;
  ladder?: { steps: string[] };
  profile?: { kinds: string[] };
  protocol: string;
  loop: string;
  variants: PlanVariant[] | null;
}

export interface PlanVariant {
  name: string;
  alias_of?: string;
  variables?: Record<string, string>;
  loop: string;
  connections: number;
  subscribers?: number;
  rate_per_second?: number;
  warmup_seconds: number;
  window_seconds: number;
}

export interface Environment {
  os: string;
  arch: string;
  kernel?: string;
  cpu_model?: string;
  cpus: number;
  memory_bytes?: number;
  virtualization?: string;
  clock_source?: string;
  cpu_governor?: string;
  go_version?: string;
  generator_cpus?: number[];
  target_cpus?: number[];
  awake_cpus?: number[];
  sysctls_set?: Record<string, string>;
  unavailable?: string[];
}

export interface Quantiles {
  count: number;
  mean_seconds?: number;
  p50_seconds?: number;
  p90_seconds?: number;
  p99_seconds?: number;
  p999_seconds?: number;
  max_seconds?: number;
}

export interface Variant {
  name: string;
  trials: number;
  throughput: Estimate;
  response: Quantiles;
  service: Quantiles;
  send_lag: Quantiles;
  errors: { total: number; ratio?: number; by_kind?: Record<string, number> };
  streams?: Streams;
  measures?: Record<string, Estimate>;
  intervals?: Record<string, Estimate>;
}

export interface Streams {
  requested: number;
  opened: number;
  failed: number;
  reconnects: number;
  ended: number;
  broken: number;
  closed: number;
  peak: number;
  all_delivered: number;
  lost: number;
  announced: number;
  uncertain: number;
  pending: number;
  gaps: number;
  repeated: number;
  disordered: number;
  unstamped: number;
  untracked: number;
  slow?: SlowStreams;
}

export interface SlowStreams {
  opened: number;
  ended: number;
  delivered: number;
  gaps: number;
  announced: number;
  missing: number;
}

export interface Comparison {
  base: string;
  variant: string;
  metric: string;
  role?: string;
  primary?: boolean;
  good: string;
  rounds: number;
  ratio: Estimate;
  p?: number;
  adjusted_p?: number;
  adjustment?: string;
  equivalence?: Estimate;
  detectable?: number;
  further_rounds?: number;
  all_rounds?: Estimate; // with those left out for noise
  verdict?: string;
}

export interface Step {
  variant: string;
  marginal?: Estimate;
  verdict?: string;
  total?: Estimate;
  total_verdict?: string;
  left_out?: Estimate;
}

export interface Sweep {
  variable: string;
  fixed?: Record<string, string>;
  metric: string;
  levels: { value: number; variant: string; figure: Estimate }[];
  knee?: number;
  scalability?: { lambda: Estimate; sigma: Estimate; kappa: Estimate; peak_level?: Estimate; extrapolated?: boolean; misfit: number };
  detail?: string;
  because?: Message;
}

export interface Capacity {
  variant: string;
  rate_per_second: Estimate;
  searches: { round: number; low_per_second?: number; high_per_second?: number; trials: number }[] | null;
  limit?: string;
  limit_because?: Message;
  detail?: string;
  because?: Message;
}

export interface Trend {
  variant: string;
  trial: number;
  metric: string;
  slope_per_second: Estimate;
  growth?: number;
  p?: number;
  detail?: string;
  because?: Message;
}

export interface Threshold {
  text: string;
  variant?: string;
  ok: boolean;
  outcome: string;
  measured?: number;
  low?: number;
  high?: number;
  detail?: string;
  because?: Message;
  not_identified?: string;
}

export interface Claim {
  id: string;
  says: string;
  holds?: string;
  outcome: string;
  measured?: number;
  low?: number;
  high?: number;
  detail?: string;
  because?: Message;
  not_identified?: string;
}

export interface Flag {
  kind: string;
  trial?: number;
  variant?: string;
  detail: string;
  because?: Message;
  about?: string;
  measured?: number;
  limit?: number;
  unit?: string;
  biases?: string[];
  spoils: boolean;
  breaks?: boolean;
}

export interface Trial {
  number: number;
  round: number;
  variant: string;
  purpose?: string;
  counted?: boolean;
  spoilt: boolean;
  warmup_seconds: number;
  window_seconds: number;
  rate_per_second?: number;
  good?: boolean;
}

export interface Check {
  kind: string;
  unit?: string;
  limit?: number;
  worst?: number;
  ok: number;
  warning: number;
  spoilt: number;
  unknown: number;
}

export type Numbers = (number | null)[];

export interface Curve {
  variant: string;
  clock: string;
  trial?: number;
  count: number;
  firm: number;
  values: Numbers;
}

// The same as in report/html.
export const perDecade = 12;
export const binsPerDecade = 16;

export interface Timeline {
  trial: number;
  load?: Grid;
  observed?: Grid;
  heat?: Heat;
}

export interface Grid {
  time: Numbers;
  lines: Line[];
}

export interface Line {
  key: string;
  column?: string;
  unit: string;
  mean: Numbers;
  low?: Numbers;
  high?: Numbers;
}

export interface Heat {
  clock: string;
  start_seconds: number;
  step_seconds: number;
  first: number;
  columns: number[][];
}

export interface Explanation {
  base: string;
  variant: string;
  control?: boolean;
  valid: boolean;
  cpu?: {
    rounds: number;
    base: number;
    variant: number;
    measured: Estimate;
    profile_rounds: number;
    profiled: Estimate;
    ranked: number;
    leftover: Estimate;
    accounted?: number;
  };
  tables?: { kind: string; unit: string; functions: Item[] | null; groups: Item[] | null }[];
  leftover?: { variant: string; kind: string; where?: string; count: number }[];
  notes?: string[];
  notes_because?: (Message | null)[];
}

export interface Item {
  name: string;
  group?: string;
  base: number;
  variant: number;
  change: Estimate;
  adjusted_p?: number;
  ranked: boolean;
}

export interface Flames {
  functions: { name: string; mapping?: string; group: number }[];
  groups: string[];
  graphs: Flame[];
}

export interface Flame {
  kind: string;
  unit: string;
  base?: string;
  variant: string;
  functions: number[];
  children: number[];
  self: Numbers;
  base_self?: Numbers;
}
