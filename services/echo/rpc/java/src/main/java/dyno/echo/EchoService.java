package dyno.echo;

import dyno.echo.v1.CollectResponse;
import dyno.echo.v1.EchoGrpc;
import dyno.echo.v1.EchoRequest;
import dyno.echo.v1.EchoResponse;
import dyno.echo.v1.ExpandRequest;
import io.grpc.Status;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/**
 * The four kinds of call. No thread waits: a timer goes on with what was delayed, and when a call
 * is cancelled or its deadline has passed, the library says so and its timer is stopped.
 */
final class EchoService extends EchoGrpc.EchoImplBase {

  private final ScheduledExecutorService timer;

  EchoService(ScheduledExecutorService timer) {
    this.timer = timer;
  }

  @Override
  public void echo(EchoRequest request, StreamObserver<EchoResponse> observer) {
    Answers<EchoResponse> answers = new Answers<>(observer);
    answers.after(
        request,
        () -> {
          observer.onNext(answer(request));
          observer.onCompleted();
        });
  }

  @Override
  public StreamObserver<EchoRequest> collect(StreamObserver<CollectResponse> observer) {
    return new Requests<>(new Answers<>(observer)) {
      private long messages;
      private long bytes;

      @Override
      void take(EchoRequest request) {
        messages++;
        bytes += request.getTextBytes().size() + request.getPayload().size();
      }

      @Override
      void end() {
        observer.onNext(
            CollectResponse.newBuilder().setMessages(messages).setBytes(bytes).build());
        observer.onCompleted();
      }
    };
  }

  @Override
  public void expand(ExpandRequest request, StreamObserver<EchoResponse> observer) {
    new Expansion(request, new Answers<>(observer)).start();
  }

  @Override
  public StreamObserver<EchoRequest> chat(StreamObserver<EchoResponse> observer) {
    return new Requests<>(new Answers<>(observer)) {
      @Override
      void take(EchoRequest request) {
        observer.onNext(answer(request));
      }

      @Override
      void end() {
        observer.onCompleted();
      }
    };
  }

  private static EchoResponse answer(EchoRequest request) {
    return EchoResponse.newBuilder()
        .setText(request.getText())
        .setPayload(request.getPayload())
        .build();
  }

  /** The side of a call that answers. Its monitor guards the call, which a timer may go on with. */
  private final class Answers<T> {
    final ServerCallStreamObserver<T> observer;
    private Future<?> wait;

    Answers(StreamObserver<T> observer) {
      this.observer = (ServerCallStreamObserver<T>) observer;
      this.observer.setOnCancelHandler(this::cancelled);
    }

    /** Waits as a message says, then ends the call with its status, or goes on. */
    void after(EchoRequest request, Runnable next) {
      Runnable then =
          () -> {
            if (request.getStatus() != 0) {
              observer.onError(
                  Status.fromCodeValue(request.getStatus())
                      .withDescription(request.getText())
                      .asRuntimeException());
            } else {
              next.run();
            }
          };
      if (request.getDelayMs() == 0) {
        then.run();
      } else {
        after(Integer.toUnsignedLong(request.getDelayMs()), TimeUnit.MILLISECONDS, then);
      }
    }

    synchronized void after(long delay, TimeUnit unit, Runnable next) {
      wait = timer.schedule(() -> resume(next), delay, unit);
      if (observer.isCancelled()) {
        wait.cancel(false);
      }
    }

    private synchronized void resume(Runnable next) {
      wait = null;
      if (!observer.isCancelled()) {
        next.run();
      }
    }

    private synchronized void cancelled() {
      if (wait != null) {
        wait.cancel(false);
      }
    }
  }

  /**
   * Takes the messages of a stream, one at a time: the next is asked for when one is done and its
   * answer is on its way, so that a caller who does not read is not answered without end.
   */
  private abstract static class Requests<T> implements StreamObserver<EchoRequest> {
    private final Answers<T> answers;
    private boolean busy;
    private boolean done;
    private boolean ended;

    Requests(Answers<T> answers) {
      this.answers = answers;
      answers.observer.disableAutoRequest();
      answers.observer.setOnReadyHandler(this::ask);
      answers.observer.request(1);
    }

    abstract void take(EchoRequest request);

    abstract void end();

    @Override
    public void onNext(EchoRequest request) {
      synchronized (answers) {
        busy = true;
        answers.after(
            request,
            () -> {
              take(request);
              busy = false;
              if (ended) {
                end();
              } else {
                done = true;
                ask();
              }
            });
      }
    }

    private void ask() {
      synchronized (answers) {
        if (done && answers.observer.isReady()) {
          done = false;
          answers.observer.request(1);
        }
      }
    }

    @Override
    public void onCompleted() {
      synchronized (answers) {
        ended = true;
        if (!busy) {
          end();
        }
      }
    }

    @Override
    public void onError(Throwable cancelled) {
      // The observer's cancel handler has stopped what there was to stop.
    }
  }

  /** Answers one message with many, no faster than the caller reads. */
  private static final class Expansion {
    private final Answers<EchoResponse> answers;
    private final ExpandRequest request;
    private final EchoResponse answer;
    private final int interval;
    private int left;
    private boolean waiting = true;

    Expansion(ExpandRequest request, Answers<EchoResponse> answers) {
      this.request = request;
      this.answers = answers;
      answer = answer(request.getMessage());
      interval = request.getIntervalUs();
      left = request.getCount();
    }

    void start() {
      answers.observer.setOnReadyHandler(this::send);
      synchronized (answers) {
        answers.after(request.getMessage(), this::proceed);
      }
    }

    private void proceed() {
      waiting = false;
      send();
    }

    private void send() {
      synchronized (answers) {
        while (!waiting && left != 0 && answers.observer.isReady()) {
          answers.observer.onNext(answer);
          left--;
          if (left != 0 && interval != 0) {
            waiting = true;
            answers.after(Integer.toUnsignedLong(interval), TimeUnit.MICROSECONDS, this::proceed);
          }
        }
        if (!waiting && left == 0) {
          waiting = true; // the call has ended, and is ended once
          answers.observer.onCompleted();
        }
      }
    }
  }
}
