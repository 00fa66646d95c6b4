package consumer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// puller asks the server for a consumer's messages. The client's own Fetch tells a
// server's word from a message by an empty body with a Status header, which anybody
// may publish: such a message would never be seen, never be settled, and hold its
// place for ever. Here a message is what can be acknowledged.
type puller struct {
	nc    *nats.Conn
	sub   *nats.Subscription
	inbox string // one subject below it for each request
	asked int
	msgs  chan *nats.Msg
}

// How a pull request is asked for. Expires is the server's patience; a server that
// says nothing for two heartbeats has lost the request.
const (
	heartbeat = 3 * time.Second
	expires   = 30 * time.Second
)

var (
	errNoHeartbeat  = errors.New("the server lost the pull request")
	errConsumerGone = errors.New("the consumer is gone")
)

// newPuller subscribes for at most n messages in hand.
func newPuller(nc *nats.Conn, n int) (*puller, error) {
	p := &puller{nc: nc, inbox: nc.NewInbox(), msgs: make(chan *nats.Msg, 2*n+64)}
	var err error
	p.sub, err = nc.ChanSubscribe(p.inbox+".*", p.msgs)
	return p, err
}

// close ends the subscription and hands what has arrived to do.
func (p *puller) close(do func(*nats.Msg)) {
	_ = p.sub.Unsubscribe() // an error means that the connection is gone, and the subscription with it
	for {
		select {
		case m := <-p.msgs:
			if isMessage(m) {
				do(m)
			}
		default:
			return
		}
	}
}

// isMessage tells what a stream holds from what the server says about the request.
func isMessage(m *nats.Msg) bool { return strings.HasPrefix(m.Reply, "$JS.ACK.") }

// pull asks for n messages of a consumer and gives each to do, until there were n,
// the request has expired, or ctx ends.
func (p *puller) pull(ctx context.Context, stream, consumer string, n int, do func(*nats.Msg)) error {
	body, err := json.Marshal(map[string]int64{"batch": int64(n), "expires": int64(expires), "idle_heartbeat": int64(heartbeat)})
	if err != nil {
		return err
	}
	p.asked++
	reply := p.inbox + "." + strconv.Itoa(p.asked)
	if err := p.nc.PublishRequest(fmt.Sprintf("$JS.API.CONSUMER.MSG.NEXT.%s.%s", stream, consumer), reply, body); err != nil {
		return err
	}
	silence := time.NewTimer(2 * heartbeat)
	defer silence.Stop()
	for n > 0 {
		select {
		case <-ctx.Done():
			return nil
		case <-silence.C:
			return errNoHeartbeat
		case m := <-p.msgs:
			silence.Reset(2 * heartbeat)
			if isMessage(m) {
				do(m)
				n--
				continue
			}
			if done, err := serverSays(m); done && m.Subject == reply { // not of a request before
				return err
			}
		}
	}
	return nil
}

// serverSays reads a status: whether the request is over, and what is wrong.
func serverSays(m *nats.Msg) (done bool, err error) {
	switch status, why := m.Header.Get("Status"), m.Header.Get("Description"); status {
	case "100": // a heartbeat
		return false, nil
	case "404", "408": // no messages, or the time is up
		return true, nil
	case "503":
		return true, nats.ErrNoResponders
	case "409":
		if strings.Contains(strings.ToLower(why), "consumer deleted") {
			return true, errConsumerGone
		}
		return true, errors.New(why)
	default:
		return true, fmt.Errorf("status %s: %s", status, why)
	}
}
