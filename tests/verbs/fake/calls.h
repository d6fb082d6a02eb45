// The calls that verbs.h reaches through a context.
#pragma once

#include <infiniband/verbs.h>

int fake_poll_cq(ibv_cq* queue, int most, ibv_wc* completions);
int fake_req_notify_cq(ibv_cq* queue, int solicited_only);
int fake_post_send(ibv_qp* pair, ibv_send_wr* first, ibv_send_wr** refused);
int fake_post_recv(ibv_qp* pair, ibv_recv_wr* first, ibv_recv_wr** refused);
