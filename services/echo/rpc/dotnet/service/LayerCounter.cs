namespace Dyno.Echo;

/// <summary>What a layer of middleware does: it counts the calls that go through it.</summary>
internal sealed class LayerCounter
{
    private long calls;

    public void Count() => Interlocked.Increment(ref calls);
}
