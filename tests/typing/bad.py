"""User code that must not type-check: each line marked ``# E:`` is an error of that kind, and no other is."""

from __future__ import annotations

from fencepost import App, JobContext

app = App("postgresql:///shop")


@app.task("receipt.send")
async def send_receipt(job: JobContext, order_id: int) -> None: ...


@app.task("report.render")
def render(order_id: int) -> int:
    return order_id


send_receipt.enqueue(order_id="7")  # E: arg-type
send_receipt.enqueue(order=7)  # E: call-arg
send_receipt.enqueue()  # E: call-arg
send_receipt.enqueue(order_id=7, run_at=None)  # E: call-arg
send_receipt.using(priority="high").enqueue(order_id=7)  # E: typeddict-item|arg-type
send_receipt.using(dealy=3)  # E: call-arg
send_receipt.new("x")  # E: arg-type
send_receipt.using(tx=7)  # E: arg-type
render("7")  # E: arg-type
app.task("x", timeuot=3)  # E: call-arg
app.task("x", executor="fork")  # E: arg-type
print(send_receipt.enqueue(7).status_code)  # E: attr-defined


async def calls() -> None:
    await send_receipt.aenqueue("7")  # E: arg-type
    await send_receipt(order_id=7)  # E: call-arg
