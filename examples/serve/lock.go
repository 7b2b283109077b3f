// Works for TIME (10s, 5m, ..) under a lock of the agent, and stops if the lock is lost:
// go run lock.go NAME TIME. QUORUMLOCK_AGENT is the agent's socket.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

func dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", os.Getenv("QUORUMLOCK_AGENT"))
}

// The lock belongs to one connection, so the agent releases the lock if this process dies. Each lock needs a Transport
// of its own, without a limit for idle time. Otherwise Go could close the connection while the work goes on.
var transport = &http.Transport{DialContext: dial, MaxConnsPerHost: 1, IdleConnTimeout: 0, DisableKeepAlives: false}
var agent = http.Client{Transport: transport, Timeout: 75 * time.Second}

type answer struct {
	ID, Message string
	Token       uint64
	UntilMs     time.Duration `json:"until_ms"`
}

// ask returns the answer and the deadline, which counts from the moment before the request. While the machine is
// suspended, Go's clock stands still.
func ask(method, path, body string) (got answer, deadline time.Time) {
	sent := time.Now()
	request, _ := http.NewRequest(method, "http://agent/v1/locks"+path, strings.NewReader(body))
	response, err := agent.Do(request)
	if err == nil {
		defer response.Body.Close()
		var text []byte // the whole body: if any of it is left, Go closes the connection
		if text, err = io.ReadAll(response.Body); err == nil {
			err = json.Unmarshal(text, &got)
		}
	}
	if err != nil || response.StatusCode != 200 {
		log.Fatalln("stopped: there is no lock:", got.Message, err)
	}
	return got, sent.Add(got.UntilMs * time.Millisecond)
}

func main() {
	work, _ := time.ParseDuration(os.Args[2]) // your work runs in another goroutine, and ends with the process
	held, deadline := ask("POST", "", fmt.Sprintf(`{"names": [%q], "timeout_ms": 60000, "keep_ms": 30000}`, os.Args[1]))
	timer := time.AfterFunc(time.Until(deadline), func() { log.Fatal("stopped: the lock's time is over") })
	fmt.Println("token", held.Token) // storage must refuse a token that is lower than an earlier one
	// Keep the lock each second, well before its deadline.
	for keep, done := time.Tick(time.Second), time.After(work); ; {
		select {
		case <-keep:
			_, deadline = ask("POST", "/"+held.ID+"/keep", "")
			timer.Reset(time.Until(deadline))
		case <-done:
			ask("DELETE", "/"+held.ID, "")
			return
		}
	}
}
