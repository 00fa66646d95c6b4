package main

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

type asynqSettings struct {
	workers int
	poll    time.Duration // how often an empty queue is asked; 0: asynq's default, a second
	results bool          // keep them, and the tasks, for an hour
}

const asynqName = "default"

// asynqPeer is asynq, client and server.
type asynqPeer struct {
	s         asynqSettings
	tally     *tally
	client    *asynq.Client
	server    *asynq.Server
	inspector *asynq.Inspector
}

func asynqQueue(redis *server, s asynqSettings) opening {
	return opening{batch: 1, idle: s.results, open: func(ctx context.Context, t *tally) (queue, error) {
		if err := emptyRedis(ctx, redis.addr); err != nil {
			return nil, err
		}
		at := asynq.RedisClientOpt{Addr: redis.addr}
		p := &asynqPeer{s: s, tally: t, client: asynq.NewClient(at), inspector: asynq.NewInspector(at)}
		p.server = asynq.NewServer(at, asynq.Config{Concurrency: s.workers, TaskCheckInterval: s.poll, LogLevel: asynq.ErrorLevel})
		return p, p.server.Start(asynq.HandlerFunc(p.work))
	}}
}

func emptyRedis(ctx context.Context, addr string) error {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	return rdb.FlushAll(ctx).Err()
}

func (p *asynqPeer) work(_ context.Context, task *asynq.Task) error {
	var job payload
	if err := json.Unmarshal(task.Payload(), &job); err != nil {
		return err
	}
	if err := p.tally.run(job); err != nil {
		return err
	}
	if !p.s.results {
		return nil
	}
	_, err := task.ResultWriter().Write(result)
	return err
}

func (p *asynqPeer) enqueue(ctx context.Context, from, to int) error {
	for n := from; n < to; n++ {
		body, err := json.Marshal(newPayload(n))
		if err != nil {
			return err
		}
		options := []asynq.Option{asynq.TaskID(strconv.Itoa(n))}
		if p.s.results {
			options = append(options, asynq.Retention(time.Hour))
		}
		if _, err := p.client.EnqueueContext(ctx, asynq.NewTask(payload{}.Kind(), body), options...); err != nil {
			return err
		}
	}
	return nil
}

// settled asks Redis only when the handlers have all run, so that asking takes no time
// from the work.
func (p *asynqPeer) settled(ctx context.Context, from, to int) error {
	err := until(ctx, time.Millisecond, func() (bool, error) { return p.tally.ran.Load() >= int64(to), nil })
	if err != nil {
		return err
	}
	return until(ctx, time.Millisecond, func() (bool, error) {
		if to-from == 1 && p.s.results { // the cheaper question
			info, err := p.inspector.GetTaskInfo(asynqName, strconv.Itoa(from))
			return err == nil && info.State == asynq.TaskStateCompleted, err
		}
		n, err := p.stored(ctx)
		return n >= to, err
	})
}

func (p *asynqPeer) stored(context.Context) (int, error) {
	info, err := p.inspector.GetQueueInfo(asynqName)
	if err != nil {
		return 0, err
	}
	if p.s.results {
		return info.Completed, nil
	}
	return info.ProcessedTotal - info.FailedTotal, nil // what is completed is removed
}

func (p *asynqPeer) close() error {
	p.server.Shutdown()
	err := p.client.Close()
	if e := p.inspector.Close(); err == nil {
		err = e
	}
	return err
}
