# What run.json holds, as the result lines that README's figures come from.
def of($base; $variant; $metric): .comparisons[] | select(.base == $base and .variant == $variant and .metric == $metric) | .ratio;
def inverse: {estimate: (1 / .estimate), low: (1 / .high), high: (1 / .low)};
def interval: "\(.estimate) (\(.low) … \(.high))";
def signed: (. * 1000 | round / 10) | if . < 0 then "−\(-.)" else "+\(.)" end;
def change: "\(.low - 1 | signed) … \(.high - 1 | signed) %";
